//! What a task needs of GPUs: `request_gpus`, the four limits, and what of `require_gpus` can be
//! said of one device.

use super::command_table::Key;
use super::error::SubmitError;
use super::plan::Values;
use super::quantity::amount;
use shipway_model::gpu::{Span, Version};
use shipway_model::{Bytes, GpuRequest};

const MIB: u64 = 1 << 20;

pub(super) fn gpus(values: &Values<'_>) -> Result<Option<GpuRequest>, SubmitError> {
    let count = values.whole(Key::RequestGpus)?.unwrap_or(0);
    let wrong = || values.wrong(Key::RequestGpus, format!("{count} is not a number of GPUs"));
    let count = u32::try_from(count).map_err(|_| wrong())?;
    if count == 0 {
        return Ok(None);
    }
    let mut request = GpuRequest::devices(count);
    if let Some(text) = values.get(Key::RequireGpus)? {
        for clause in text.split("&&") {
            require(&mut request, clause).ok_or_else(|| {
                let why = format!(
                    "of one GPU only Capability, GlobalMemoryMb, DriverVersion and DeviceName can \
                     be compared, joined by &&; not `{}`",
                    clause.trim()
                );
                values.refused(Key::RequireGpus, why)
            })?;
        }
    }
    limits(values, &mut request)?;
    Ok(Some(request))
}

fn limits(values: &Values<'_>, request: &mut GpuRequest) -> Result<(), SubmitError> {
    let version = |key: Key| -> Result<Option<Version>, SubmitError> {
        let Some(text) = values.get(key)? else { return Ok(None) };
        let wrong = |_| values.wrong(key, format!("`{text}` is not a version such as 8.0"));
        text.trim().parse().map(Some).map_err(wrong)
    };
    // HTCondor leaves out a limit on what `require_gpus` speaks of already.
    if request.capability.is_any() {
        request.capability.from = version(Key::GpusMinCapability)?;
        request.capability.to = version(Key::GpusMaxCapability)?;
    }
    if let Some(text) = values.get(Key::GpusMinMemory)?.filter(|_| request.memory.is_any()) {
        let wrong = || values.wrong(Key::GpusMinMemory, format!("`{text}` is not an amount"));
        let least = amount(&text, MIB).ok_or_else(wrong)?;
        request.memory.from = Some(Bytes(least.saturating_mul(MIB)));
    }
    if request.driver.is_any() {
        request.driver.from = driver(values)?;
    }
    Ok(())
}

/// CUDA versions in HTCondor's way of writing them, 12010 for 12.1, and the first driver that
/// supports each.
const DRIVERS: [(u64, u32); 22] = [
    (10_000, 410),
    (10_010, 418),
    (10_020, 440),
    (11_000, 450),
    (11_010, 455),
    (11_020, 460),
    (11_030, 465),
    (11_040, 470),
    (11_050, 495),
    (11_060, 510),
    (11_070, 515),
    (11_080, 520),
    (12_000, 525),
    (12_010, 530),
    (12_020, 535),
    (12_030, 545),
    (12_040, 550),
    (12_050, 555),
    (12_060, 560),
    (12_080, 570),
    (12_090, 575),
    (13_000, 580),
];

/// `gpus_minimum_runtime` as the least driver.
fn driver(values: &Values<'_>) -> Result<Option<Version>, SubmitError> {
    let Some(text) = values.get(Key::GpusMinRuntime)? else { return Ok(None) };
    let wrong = || values.wrong(Key::GpusMinRuntime, format!("`{text}` is not a CUDA version"));
    let (major, minor) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let number = |part: &str| part.parse::<u64>().ok().filter(|number| *number < 100_000);
    let (major, minor) = (number(major).ok_or_else(wrong)?, number(minor).ok_or_else(wrong)?);
    let written_out = major > 1_000 && !text.contains('.');
    let version = if written_out { major } else { major * 1_000 + minor * 10 };
    let why = "no driver is known that supports this CUDA version";
    let found = DRIVERS.iter().find(|(cuda, _)| *cuda >= version);
    let (_, driver) = found.ok_or_else(|| values.refused(Key::GpusMinRuntime, why))?;
    Ok(Some(Version::new(&[*driver])))
}

/// One comparison; `None` when it cannot be said.
fn require(request: &mut GpuRequest, clause: &str) -> Option<()> {
    let mut clause = clause.trim();
    while let Some(inner) = clause.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        clause = inner.trim();
    }
    if clause.is_empty() {
        return None;
    }
    if let Some(model) = model_by_pattern(clause) {
        request.models.push(model);
        return Some(());
    }
    let at = clause.find(['<', '>', '='])?;
    let (name, rest) = clause.split_at(at);
    let sign_end = rest.find(|c: char| !"<>=?".contains(c))?;
    let (sign, value) = rest.split_at(sign_end);
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    match name.as_str() {
        "capability" => span(&mut request.capability, sign, value.parse().ok()?, above, below),
        "driverversion" => span(&mut request.driver, sign, value.parse().ok()?, above, below),
        "globalmemorymb" => {
            let bytes = Bytes(amount(value, MIB)?.checked_mul(MIB)?);
            let step = |by: i64| move |bytes: &Bytes| Bytes(bytes.0.saturating_add_signed(by));
            span(&mut request.memory, sign, bytes, step(1), step(-1))
        }
        "devicename" if matches!(sign, "==" | "=?=") => {
            let text = value.strip_prefix('"')?.strip_suffix('"')?;
            request.models.push(text.into());
            Some(())
        }
        _ => None,
    }
}

fn span<T: Clone>(
    span: &mut Span<T>,
    sign: &str,
    value: T,
    above: impl Fn(&T) -> T,
    below: impl Fn(&T) -> T,
) -> Option<()> {
    match sign {
        ">=" => span.from = Some(value),
        ">" => span.from = Some(above(&value)),
        "<=" => span.to = Some(value),
        "<" => span.to = Some(below(&value)),
        "==" | "=?=" => *span = Span { from: Some(value.clone()), to: Some(value) },
        _ => return None,
    }
    Some(())
}

/// The next version that there could be: 7.0.1 is above 7.0, and below 7.1.
fn above(version: &Version) -> Version {
    let parts = version.parts().iter().copied().chain([1]);
    Version::new(&parts.collect::<Vec<_>>())
}

fn below(version: &Version) -> Version {
    let mut parts = version.parts().to_vec();
    while parts.last() == Some(&0) {
        parts.pop();
    }
    if let Some(last) = parts.last_mut() {
        *last -= 1;
        parts.push(u32::MAX);
    }
    Version::new(&parts)
}

/// `regexp("A100", DeviceName)` of a pattern that is plain letters.
fn model_by_pattern(clause: &str) -> Option<String> {
    let (function, rest) = clause.split_once('(')?;
    let (pattern, name) = rest.strip_suffix(')')?.split_once(',')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '-';
    let known = function.trim().eq_ignore_ascii_case("regexp")
        && name.trim().eq_ignore_ascii_case("DeviceName");
    let pattern = pattern.trim().strip_prefix('"')?.strip_suffix('"')?;
    (known && !pattern.is_empty() && pattern.chars().all(plain)).then(|| pattern.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_of_one_device() {
        let mut request = GpuRequest::devices(1);
        for clause in [
            " (Capability >= 8.0) ",
            "GlobalMemoryMb > 40000",
            "DeviceName == \"Tesla K40m\"",
            "regexp(\"A100\", DeviceName)",
            "DriverVersion < 13.0",
        ] {
            require(&mut request, clause).expect(clause);
        }
        assert_eq!(request.capability.from, "8.0".parse().ok());
        assert_eq!(request.memory.from, Some(Bytes(40_000 * MIB + 1)));
        assert_eq!(request.models, ["Tesla K40m", "A100"]);
        let driver = |text: &str| request.driver.holds(&text.parse().expect(text));
        assert!(driver("12.9") && !driver("13.0") && !driver("13.1"));
        for bad in ["", "ECCEnabled", "Capability", "a || b", "DeviceName != \"x\""] {
            assert!(require(&mut GpuRequest::devices(1), bad).is_none(), "{bad}");
        }
    }
}
