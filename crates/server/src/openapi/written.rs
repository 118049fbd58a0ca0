//! What people may write, where that is more than the types of the answers say: the specification
//! of a job is read in short forms and long ones, and printed in one.
//!
//! Applied to the generated document. Not a second description: everything not named here stays
//! as the types have it.

use serde_json::{Value, json};
use shipway_api::routes::{ENDPOINTS, Who};
use shipway_model::limits::{MAX_RETRIES, PRIORITY_RANGE};

/// A schema's name, the property (or the whole of it), and what may stand there.
fn written() -> Vec<(&'static str, Option<&'static str>, Value)> {
    let text = json!({"type": "string"});
    let whole = json!({"type": "integer", "minimum": 0});
    let nothing = json!({"type": "null"});
    let amount = any(&[json!({"type": "number", "minimum": 0}), text.clone()]);
    let span = any(&[amount.clone(), nothing.clone()]);
    let plain = any(&[text.clone(), json!({"type": "number"}), json!({"type": "boolean"})]);
    let row = json!({"type": "object", "additionalProperties": plain});
    let rows = json!({"type": "array", "items": any(&[text.clone(), row])});
    let after = any(&[whole.clone(), json!({"type": "string", "pattern": AFTER})]);
    let code = any(&[json!({"type": "integer"}), text.clone()]);
    let codes = json!({"type": "array", "items": code});
    let retries = json!({"type": "integer", "minimum": 0, "maximum": MAX_RETRIES});
    let absolute = json!({"type": "string", "pattern": "^/"});
    let named = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let words = json!({"type": "array", "items": text.clone()});
    vec![
        ("JobSpec", Some("command"), any(&[words.clone(), text.clone()])),
        ("JobSpec", Some("array"), any(&[text.clone(), whole.clone(), nothing.clone()])),
        ("JobSpec", Some("each"), any(&[rows, nothing.clone()])),
        ("JobSpec", Some("after"), json!({"type": "array", "items": after})),
        ("JobSpec", Some("retries"), any(&[retries, named("RetryPolicy")])),
        ("JobSpec", Some("workdir"), any(&[absolute, nothing.clone()])),
        (
            "JobSpec",
            Some("priority"),
            json!({"type": "integer", "minimum": PRIORITY_RANGE.start(),
            "maximum": PRIORITY_RANGE.end()}),
        ),
        ("JobSpec", Some("time_limit"), any(&[span.clone(), named("TimeLimit")])),
        ("Resources", Some("cpus"), amount.clone()),
        ("Resources", Some("gpu"), any(&[span.clone(), named("GpuRequest")])),
        ("Bytes", None, any(&[whole, text.clone()])),
        ("GpuRequest", Some("model"), any(&[text.clone(), words, nothing.clone()])),
        ("GpuRequest", Some("share"), span.clone()),
        ("GpuRequest", Some("memory"), span.clone()),
        ("GpuRequest", Some("capability"), span.clone()),
        ("GpuRequest", Some("driver"), span.clone()),
        ("RetryPolicy", Some("delay"), span.clone()),
        ("RetryPolicy", Some("on"), any(&[text.clone(), codes, nothing.clone()])),
        ("TimeLimit", Some("limit"), amount),
        ("TimeLimit", Some("warn"), any(&[named("Signal"), nothing])),
        ("TimeLimit", Some("grace"), span.clone()),
        ("NewToken", Some("lasts"), span),
        (
            "Selection",
            Some("tasks"),
            json!({"type": "array", "items": {
            "type": "string", "pattern": "^[0-9]{1,19}/[0-9]{1,19}$"}}),
        ),
        (
            "UserName",
            None,
            json!({"type": "string", "minLength": 1, "maxLength": 64,
            "pattern": "^[A-Za-z0-9._:@-]+$"}),
        ),
    ]
}

const AFTER: &str = "^[0-9]{1,19}(:(ok|failed|any))?$";
/// Where a long form is read, and what of it is needed.
const LONG_FORMS: [(&str, &[&str]); 3] =
    [("RetryPolicy", &["limit"]), ("TimeLimit", &["limit"]), ("GpuRequest", &[])];

fn any(choices: &[Value]) -> Value {
    json!({ "anyOf": choices })
}

pub(super) fn apply(document: &mut Value) {
    let schemas = &mut document["components"]["schemas"];
    for (name, property, form) in written() {
        let place = match property {
            Some(property) => &mut schemas[name]["properties"][property],
            None => &mut schemas[name],
        };
        let (said, usual) = (place["description"].take(), place["default"].take());
        *place = form;
        for (key, value) in [("description", said), ("default", usual.clone())] {
            if !value.is_null() {
                place[key] = value;
            }
        }
    }
    for (name, needed) in LONG_FORMS {
        schemas[name]["required"] = json!(needed);
        schemas[name]["additionalProperties"] = json!(false);
    }
    unsigned(document);
    errors_of_ours(document);
    open_to_anybody(document);
}

/// Numbers that cannot be negative go up to twice what the usual formats say.
fn unsigned(value: &mut Value) {
    if value["minimum"] == 0 && value["format"].is_string() {
        let format = if value["format"] == "int64" { "uint64" } else { "uint32" };
        value["format"] = format.into();
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(unsigned),
        Value::Array(list) => list.iter_mut().for_each(unsigned),
        _ => {}
    }
}

/// What the server cannot do has the same body as what the client may not.
fn errors_of_ours(document: &mut Value) {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(serde_json::Map::values_mut);
    for operation in paths.filter_map(Value::as_object_mut).flat_map(serde_json::Map::values_mut) {
        let theirs = operation["responses"].get("4XX").cloned();
        if let Some(theirs) = theirs {
            operation["responses"]["5XX"] = theirs;
        }
    }
}

/// What asks for no token.
fn open_to_anybody(document: &mut Value) {
    for endpoint in ENDPOINTS.iter().filter(|endpoint| endpoint.who == Who::Anybody) {
        let operation = &mut document["paths"][endpoint.path][endpoint.method.to_lowercase()];
        operation["security"] = json!([{}]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A name that no longer exists would be made up by indexing; this is what notices.
    #[test]
    fn every_place_is_in_the_generated_document() {
        let generated: Value = serde_json::from_str(&super::super::generated()).expect("JSON");
        for (name, property, _) in written() {
            let schema = &generated["components"]["schemas"][name];
            let place = property.map_or(schema, |property| &schema["properties"][property]);
            assert!(place.is_object(), "{name} {property:?}");
        }
    }

    #[test]
    fn what_handlers_say_of_themselves_is_what_the_table_says() {
        let generated: Value = serde_json::from_str(&super::super::generated()).expect("JSON");
        let mut said = BTreeSet::new();
        for (path, item) in generated["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let takes_a_body = operation["requestBody"].is_object();
                said.insert((path.as_str(), method.to_uppercase(), takes_a_body));
            }
        }
        let listed = ENDPOINTS.iter().map(|e| (e.path, e.method.to_string(), e.most_bytes > 0));
        assert_eq!(said, listed.collect());
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let document: Value = serde_json::from_str(&super::super::document()).expect("JSON");
        let mut names: Vec<String> = Vec::new();
        for path in document["paths"].as_object().expect("paths").values() {
            for operation in path.as_object().expect("operations").values() {
                names.push(operation["operationId"].as_str().expect("a name").into());
            }
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
