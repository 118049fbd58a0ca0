//! Times by a format, as C's `strftime` has it where no language is set.

use crate::times::Date;

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// HTCondor writes into a buffer of this size, and gives nothing when it is too small.
const MOST: usize = 1_022;

pub(super) fn strftime(format: &[u8], date: &Date) -> Vec<u8> {
    let mut output = Vec::new();
    let mut rest = format.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            output.push(byte);
            continue;
        }
        let Some(mut letter) = rest.next() else {
            output.push(b'%');
            break;
        };
        let mut raw = vec![b'%', letter];
        // Other ways to write numbers and years; there are none.
        if matches!(letter, b'E' | b'O') {
            let Some(next) = rest.next() else {
                output.extend(raw);
                break;
            };
            letter = next;
            raw.push(next);
        }
        match part(letter, date) {
            Some(part) => output.extend(part.into_bytes()),
            None => output.extend(raw),
        }
        if output.len() > MOST {
            break;
        }
    }
    if output.len() > MOST { Vec::new() } else { output }
}

fn name<'n>(names: &[&'n str], at: i64) -> &'n str {
    usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("?")
}

fn part(letter: u8, date: &Date) -> Option<String> {
    let Date { year, month, day, hour, minute, second } = *date;
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let noon = if hour >= 12 { "PM" } else { "AM" };
    let whole =
        |format: &str| String::from_utf8(strftime(format.as_bytes(), date)).unwrap_or_default();
    Some(match letter {
        b'a' => name(&DAYS, date.weekday()).chars().take(3).collect(),
        b'A' => name(&DAYS, date.weekday()).to_owned(),
        b'b' | b'h' => name(&MONTHS, month - 1).chars().take(3).collect(),
        b'B' => name(&MONTHS, month - 1).to_owned(),
        b'c' => whole("%a %b %e %H:%M:%S %Y"),
        b'C' => format!("{:02}", year.div_euclid(100)),
        b'd' => format!("{day:02}"),
        b'D' | b'x' => whole("%m/%d/%y"),
        b'e' => format!("{day:2}"),
        b'F' => whole("%Y-%m-%d"),
        b'g' => format!("{:02}", iso_week(date).0.rem_euclid(100)),
        b'G' => format!("{}", iso_week(date).0),
        b'H' => format!("{hour:02}"),
        b'I' => format!("{twelve:02}"),
        b'j' => format!("{:03}", date.day_of_year() + 1),
        b'k' => format!("{hour:2}"),
        b'l' => format!("{twelve:2}"),
        b'm' => format!("{month:02}"),
        b'M' => format!("{minute:02}"),
        b'n' => "\n".into(),
        b'p' => noon.into(),
        b'P' => noon.to_ascii_lowercase(),
        b'r' => whole("%I:%M:%S %p"),
        b'R' => whole("%H:%M"),
        b's' => format!("{}", date.seconds()),
        b'S' => format!("{second:02}"),
        b't' => "\t".into(),
        b'T' | b'X' => whole("%H:%M:%S"),
        b'u' => format!("{}", (date.weekday() + 6) % 7 + 1),
        b'U' => format!("{:02}", (date.day_of_year() + 7 - date.weekday()) / 7),
        b'V' => format!("{:02}", iso_week(date).1),
        b'w' => format!("{}", date.weekday()),
        b'W' => format!("{:02}", (date.day_of_year() + 7 - (date.weekday() + 6) % 7) / 7),
        b'y' => format!("{:02}", year.rem_euclid(100)),
        b'Y' => format!("{year}"),
        b'z' => "+0000".into(),
        b'Z' => "UTC".into(),
        b'%' => "%".into(),
        _ => return None,
    })
}

/// The year and week by which Thursdays count.
fn iso_week(date: &Date) -> (i64, i64) {
    let monday = (date.weekday() + 6) % 7;
    let thursday = Date::of(date.seconds() + (3 - monday) * 86_400);
    (thursday.year, thursday.day_of_year() / 7 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_c_writes_them() {
        let text = |format: &str| {
            String::from_utf8(strftime(format.as_bytes(), &Date::of(1_609_459_199))).expect("text")
        };
        assert_eq!(text("%c"), "Thu Dec 31 23:59:59 2020");
        assert_eq!(text("%G-W%V-%u %j %I%p %q %"), "2020-W53-4 366 11PM %q %");
        let long = " ".repeat(1_200);
        assert_eq!(text(&long), "");
    }
}
