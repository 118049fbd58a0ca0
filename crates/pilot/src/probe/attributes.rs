//! What else is known of the node, with the names that people know from HTCondor: its system, and
//! what its processor can do. Values are ClassAd expressions.

use super::Places;
use crate::proof::HAS_CONTAINER;
use shipway_model::gpu::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Flags of the processor that are told, as HTCondor tells them: `has_avx2`. `HasAVX2` is the same.
const FLAGS: [&str; 8] =
    ["ssse3", "sse4_1", "sse4_2", "avx", "avx2", "avx512f", "avx512dq", "avx512_vnni"];
/// What each level of the x86-64 architecture adds, by the names of the kernel.
const LEVELS: [(&str, &[&str]); 3] = [
    ("x86_64-v2", &["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"]),
    ("x86_64-v3", &["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"]),
    ("x86_64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

pub(super) fn of(places: &Places, cuda: Option<&Version>) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    let mut say = |name: &str, value: String| known.insert(name.to_owned(), value);
    let is_x86 = cfg!(target_arch = "x86_64");
    say("Arch", text(if is_x86 { "X86_64" } else { std::env::consts::ARCH }));
    say("OpSys", text("LINUX"));
    // Until the proof of the node has found otherwise.
    say(HAS_CONTAINER, true.to_string());
    for (name, value) in system(&places.etc) {
        say(name, value);
    }
    let flags = flags(&places.proc);
    for flag in FLAGS {
        let has = flags.contains(flag).to_string();
        say(&format!("has_{flag}"), has.clone());
        say(&format!("Has{}", flag.to_ascii_uppercase()), has);
    }
    if is_x86 {
        say("Microarch", text(level(&flags)));
    }
    if let Some([major, minor]) = cuda.and_then(|cuda| cuda.parts().get(..2)) {
        // 12.4 is 12040, and as a number that is compared 12.4.
        let whole = (major * 1_000 + minor * 10).to_string();
        for prefix in ["CUDA", "GPUs_"] {
            say(&format!("{prefix}MaxSupportedVersion"), whole.clone());
            say(&format!("{prefix}DriverVersion"), format!("{major}.{minor}"));
        }
    }
    known
}

/// In quotes, with nothing in it that could end them.
fn text(value: &str) -> String {
    let plain = |c: &char| !c.is_control() && !['"', '\\'].contains(c);
    format!("\"{}\"", value.chars().filter(plain).collect::<String>())
}

/// Name and version of the distribution: `Debian12`.
fn system(etc: &Path) -> Vec<(&'static str, String)> {
    let read = std::fs::read_to_string(etc.join("os-release")).unwrap_or_default();
    let field = |name: &str| {
        let line = read.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    let mut found = Vec::new();
    let Some(id) = field("ID") else { return found };
    let name = match id.as_str() {
        "debian" => "Debian".to_owned(),
        "ubuntu" => "Ubuntu".to_owned(),
        "almalinux" => "AlmaLinux".to_owned(),
        "rocky" => "Rocky".to_owned(),
        "centos" => "CentOS".to_owned(),
        "fedora" => "Fedora".to_owned(),
        "rhel" => "RedHat".to_owned(),
        other => other.to_owned(),
    };
    let major =
        field("VERSION_ID").map(|version| version.split('.').next().unwrap_or("").to_owned());
    let major = major.filter(|major| major.parse::<u32>().is_ok());
    found.push(("OpSysName", text(&name)));
    if let Some(major) = major {
        found.push(("OpSysAndVer", text(&format!("{name}{major}"))));
        found.push(("OpSysMajorVer", major));
    }
    found.extend(field("PRETTY_NAME").map(|long| ("OpSysLongName", text(&long))));
    found
}

fn flags(proc: &Path) -> BTreeSet<String> {
    let read = std::fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default();
    let line = read.lines().find(|line| line.starts_with("flags") || line.starts_with("Features"));
    let flags = line.and_then(|line| line.split_once(':')).map(|(_, flags)| flags);
    flags.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The highest level whose flags, and those of all below it, are there.
fn level(flags: &BTreeSet<String>) -> &'static str {
    let has =
        |wanted: &&str| flags.contains(*wanted) || *wanted == "abm" && flags.contains("lzcnt");
    let held = LEVELS.iter().take_while(|(_, wanted)| wanted.iter().all(has));
    held.last().map_or("x86_64-v1", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_and_the_processor_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let release = "NAME=x\nID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"A \\\"b\"\n";
        std::fs::write(dir.path().join("os-release"), release).unwrap();
        let flags = "flags\t\t: cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2\n";
        std::fs::write(dir.path().join("cpuinfo"), flags).unwrap();
        let places = Places {
            dir: dir.path().into(),
            proc: dir.path().into(),
            sys: dir.path().into(),
            etc: dir.path().into(),
        };
        let known = of(&places, Some(&Version::new(&[12, 4])));
        assert_eq!(known["OpSysAndVer"], "\"Debian12\"");
        assert_eq!((known["HasAVX2"].as_str(), known["has_avx512f"].as_str()), ("true", "false"));
        assert_eq!(known["CUDAMaxSupportedVersion"], "12040");
        assert_eq!(known["OpSysLongName"], "\"A b\"");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(known["Microarch"], "\"x86_64-v2\"");
        }
    }
}
