//! Values of both kinds, and lists too long to be kept.

use super::*;

#[test]
fn numbers_are_read_in_both_ways_of_writing_them() {
    let table = [
        ("7", Some(7)),
        ("-1", None),
        ("7.0", Some(7)),
        ("0.5", None),
        ("null", None),
        ("\"7\"", Some(7)),
        ("\"N/A\"", None),
        (r#"{"set": true, "infinite": false, "number": 7}"#, Some(7)),
        (r#"{"number": 7, "set": false, "infinite": false}"#, None),
        (r#"{"set": true, "infinite": true, "number": 7}"#, None),
        ("[1, {}]", None),
    ];
    for (json, number) in table {
        let read: Number = serde_json::from_str(json).expect(json);
        assert_eq!(read, Number(number), "{json}");
    }
    for (json, words) in
        [("\"a,b\"", "a,b"), ("[\"a\", \"b\"]", "a,b"), ("null", ""), ("\"\"", ""), ("[]", "")]
    {
        let read: Words = serde_json::from_str(json).expect(json);
        assert_eq!(read.text(), words, "{json}");
    }
}

/// As many jobs as a large cluster has, said by nobody before they are read.
struct Said<'a> {
    left: u64,
    row: &'static [u8],
    rest: &'static [u8],
    read: &'a std::cell::Cell<u64>,
}

impl Read for Said<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.left > 0 {
            (self.left, self.rest) = (self.left - 1, self.row);
        } else if self.rest.is_empty() && self.left == 0 {
            let end: &[u8] = if self.row.is_empty() { b"" } else { b"{}]}" };
            (self.row, self.rest) = (b"", end);
        }
        let count = self.rest.read(into)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

#[test]
fn of_a_hundred_thousand_jobs_no_more_is_read_than_is_looked_at() {
    const ROW: &[u8] = br#"{"job_id": 7, "cores": ["allocated", "allocated", {"a": [1]}]},"#;
    let read = std::cell::Cell::new(0);
    let said = Said { left: 100_000, row: ROW, rest: br#"{"jobs": ["#, read: &read };
    let (mut seen, mut ahead) = (0_u64, 0);
    let told = rows(said, "jobs", |_: IgnoredAny| {
        seen += 1;
        ahead = ahead.max(read.get().saturating_sub(seen * ROW.len() as u64));
        Ok(())
    });
    assert!(told.expect("readable").has_list);
    assert_eq!(seen, 100_001);
    assert!(ahead < 64 * 1024, "{ahead} bytes were kept");
}

#[derive(Deserialize)]
struct Row {
    name: Words,
}

#[test]
fn rows_go_by_one_by_one_and_a_broken_end_is_told() {
    let row = br#"{"name": "x", "more": [1, {"a": "]"}]},"#;
    let many = row.iter().copied().cycle().take(row.len() * 10_000);
    let body = |end: &'static [u8]| {
        let bytes = br#"{"jobs": ["#.iter().copied().chain(many.clone());
        bytes.chain(end.iter().copied()).collect::<Vec<u8>>()
    };
    let read = |bytes: &[u8]| {
        let mut count = 0;
        let told = rows(bytes, "jobs", |row: Row| {
            count += row.name.0.len();
            Ok(())
        });
        (told.map(|told| told.has_list).map_err(|error| error.to_string()), count)
    };
    assert_eq!(read(&body(br#"{"name": "y"}], "errors": []}"#)), (Ok(true), 10_001));
    assert!(read(&body(br#"{"name": "y"}]"#)).0.is_err(), "it broke off");
    assert_eq!(read(br#"{"errors": []}"#), (Ok(false), 0));
    let long = format!(r#"{{"jobs": [{{"name": "{}"}}]}}"#, "x".repeat(MAX_TOKEN + 1));
    let said = read(long.as_bytes()).0.expect_err("too long");
    assert!(said.contains("longer than 1 MiB"), "{said}");
    let digits = format!(r#"{{"jobs": [{{"other": {}}}]}}"#, "1".repeat(MAX_TOKEN + 2));
    assert!(read(digits.as_bytes()).0.is_err());
}
