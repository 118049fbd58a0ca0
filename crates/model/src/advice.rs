//! What could be asked for instead, as data: one piece of advice for an attempt, and its sentence.
//!
//! Which one it is, and whether there is any, is decided in `shipway-core` by what was used and by
//! what the server has (`core/src/advice.rs`). Nothing is decided here.

use crate::units::{Bytes, Cores, GpuShare, Millis};
use crate::usage::WHOLE;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Advice {
    /// It was ended for its memory.
    OutOfMemory {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Bytes>,
        ask: Bytes,
    },
    /// It was ended for its part of a GPU's memory.
    OutOfGpuMemory {
        share: GpuShare,
        ask: GpuShare,
    },
    /// Its results may be wrong.
    GpuErrors {
        errors: u64,
    },
    /// A little more, and it would have been ended.
    NearMemory {
        asked: Bytes,
        used: Bytes,
        ask: Bytes,
    },
    GpusUnused {
        gpus: u64,
        idle: u64,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        over: Millis,
    },
    /// What it waits for is the storage.
    Waited {
        /// Ten-thousandths of the time.
        part: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gpu_busy: Option<u64>,
    },
    /// Its processors cannot keep the GPU busy.
    FewCores {
        #[cfg_attr(feature = "schema", schema(value_type = f64))]
        asked: Cores,
        gpu_busy: u64,
    },
    /// A part of the GPU would do.
    SmallerGpu {
        /// Ten-thousandths of the time.
        busy: u64,
        used: Bytes,
        of: Bytes,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        over: Millis,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slice: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<GpuShare>,
    },
    FewerGpus {
        gpus: u64,
        busy: u64,
        #[cfg_attr(feature = "schema", schema(value_type = String))]
        over: Millis,
        ask: u64,
    },
    /// Its GPU waits for its own memory.
    GpuMemoryBound {
        busy: u64,
        memory_busy: u64,
    },
    MemoryUnused {
        asked: Bytes,
        used: Bytes,
        ask: Bytes,
    },
    CoresUnused {
        #[cfg_attr(feature = "schema", schema(value_type = f64))]
        asked: Cores,
        #[cfg_attr(feature = "schema", schema(value_type = f64))]
        used: Cores,
        ask: u64,
    },
}

impl Advice {
    /// The names of all kinds, for those who count them.
    pub const KINDS: [&str; 12] = [
        "out_of_memory",
        "out_of_gpu_memory",
        "gpu_errors",
        "near_memory",
        "gpus_unused",
        "waited",
        "few_cores",
        "smaller_gpu",
        "fewer_gpus",
        "gpu_memory_bound",
        "memory_unused",
        "cores_unused",
    ];

    /// The place in `KINDS`.
    pub const fn kind(&self) -> usize {
        match self {
            Advice::OutOfMemory { .. } => 0,
            Advice::OutOfGpuMemory { .. } => 1,
            Advice::GpuErrors { .. } => 2,
            Advice::NearMemory { .. } => 3,
            Advice::GpusUnused { .. } => 4,
            Advice::Waited { .. } => 5,
            Advice::FewCores { .. } => 6,
            Advice::SmallerGpu { .. } => 7,
            Advice::FewerGpus { .. } => 8,
            Advice::GpuMemoryBound { .. } => 9,
            Advice::MemoryUnused { .. } => 10,
            Advice::CoresUnused { .. } => 11,
        }
    }
}

/// A part, in per cent.
struct Percent(u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", (self.0 + 50) / (WHOLE / 100))
    }
}

/// A time as people say it: one unit, or two of the larger ones.
struct About(Millis);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.0.0 / 60_000;
        match (minutes / 60, minutes % 60) {
            (0, 0) => write!(f, "{} s", self.0.0 / 1_000),
            (0, minutes) => write!(f, "{minutes} min"),
            (hours, 0) => write!(f, "{hours} h"),
            (hours, minutes) => write!(f, "{hours} h {minutes} min"),
        }
    }
}

/// The sentence.
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::OutOfMemory { asked: Some(asked), ask } => {
                write!(f, "{asked} of memory was not enough: ask for more (`--memory {ask}`)")
            }
            Advice::OutOfMemory { asked: None, ask } => {
                write!(f, "the node ran out of memory: say how much it needs (`--memory {ask}`)")
            }
            Advice::OutOfGpuMemory { share, ask } => {
                write!(f, "the memory of a {share} share was not enough: ask for more ")?;
                write!(f, "(`--gpus {ask}`)")
            }
            Advice::GpuErrors { errors } => {
                let some = if *errors == 1 { "an error" } else { "errors" };
                write!(f, "the GPU's memory had {some} that could not be corrected ({errors}): ")?;
                write!(f, "results may be wrong, run it again and tell the operator")
            }
            Advice::NearMemory { asked, used, ask } => {
                write!(f, "memory asked {asked}, used {used}: a little more and it would have ")?;
                write!(f, "been ended, ask for more (`--memory {ask}`)")
            }
            Advice::MemoryUnused { asked, used, ask } => {
                write!(f, "memory asked {asked}, used {used}: ask for less (`--memory {ask}`)")
            }
            Advice::CoresUnused { asked, used, ask } => {
                write!(f, "{asked} cores asked, {used} used: ask for fewer (`--cpus {ask}`)")
            }
            Advice::Waited { part, gpu_busy } => {
                write!(f, "waited for input {} of the time", Percent(*part))?;
                if let Some(busy) = gpu_busy {
                    write!(f, ", with the GPU {} busy", Percent(*busy))?;
                }
                write!(f, ": bring its files along (`--input`), or read ahead in more processes")
            }
            _ => self.of_gpus(f),
        }
    }
}

impl Advice {
    fn of_gpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Advice::GpusUnused { gpus, idle, over } if idle == gpus => {
                let which = if *gpus == 1 { "the GPU was" } else { "the GPUs were" };
                write!(f, "{which} never busy in {}: ask for none", About(*over))
            }
            Advice::GpusUnused { gpus, idle, over } => {
                let ask = gpus.saturating_sub(*idle);
                write!(f, "{idle} of {gpus} GPUs were never busy in {}: ", About(*over))?;
                write!(f, "ask for {ask} (`--gpus {ask}`)")
            }
            Advice::FewCores { asked, gpu_busy } => {
                write!(f, "all of {asked} cores busy and the GPU only {}", Percent(*gpu_busy))?;
                write!(f, ": ask for more cores (`--cpus`)")
            }
            Advice::SmallerGpu { busy, used, of, over, slice, share } => {
                write!(f, "GPU {} busy, {used} of {of} used ", Percent(*busy))?;
                write!(f, "over {}: ask for ", About(*over))?;
                match (slice, share) {
                    (Some(slice), Some(share)) => {
                        write!(f, "a slice (`--gpus {slice}`) or a share (`--gpus {share}`)")
                    }
                    (Some(slice), None) => write!(f, "a slice (`--gpus {slice}`)"),
                    (None, Some(share)) => write!(f, "a share (`--gpus {share}`)"),
                    (None, None) => write!(f, "less"),
                }
            }
            Advice::FewerGpus { gpus, busy, over, ask } => {
                write!(f, "{gpus} GPUs {} busy over {}: ", Percent(*busy), About(*over))?;
                write!(f, "ask for {ask} (`--gpus {ask}`)")
            }
            Advice::GpuMemoryBound { busy, memory_busy } => {
                write!(f, "GPU {} busy, its memory {}: ", Percent(*busy), Percent(*memory_busy))?;
                write!(f, "it waits for memory, smaller types (bf16) or larger batches help")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVER: Millis = Millis(2 * 3_600_000 + 5);

    fn gb(count: u64) -> Bytes {
        Bytes(count * 1_000_000_000)
    }

    fn smaller(slice: Option<&str>, share: Option<GpuShare>) -> Advice {
        let (used, of, slice) = (gb(3), gb(141), slice.map(str::to_owned));
        Advice::SmallerGpu { busy: 600, used, of, over: OVER, slice, share }
    }

    /// One of each kind, with its sentence.
    fn said() -> Vec<(Advice, &'static str)> {
        let (share, over) = (GpuShare(1_000), OVER);
        vec![
            (
                Advice::OutOfMemory { asked: Some(gb(4)), ask: gb(6) },
                "4GB of memory was not enough: ask for more (`--memory 6GB`)",
            ),
            (
                Advice::OutOfGpuMemory { share, ask: GpuShare(2_000) },
                "the memory of a 0.1 share was not enough: ask for more (`--gpus 0.2`)",
            ),
            (
                Advice::GpuErrors { errors: 1 },
                "the GPU's memory had an error that could not be corrected (1): results may be \
                 wrong, run it again and tell the operator",
            ),
            (
                Advice::NearMemory { asked: gb(8), used: gb(8), ask: gb(10) },
                "memory asked 8GB, used 8GB: a little more and it would have been ended, ask for \
                 more (`--memory 10GB`)",
            ),
            (
                Advice::GpusUnused { gpus: 4, idle: 1, over },
                "1 of 4 GPUs were never busy in 2 h: ask for 3 (`--gpus 3`)",
            ),
            (
                Advice::Waited { part: 4_000, gpu_busy: Some(2_149) },
                "waited for input 40 % of the time, with the GPU 21 % busy: bring its files along \
                 (`--input`), or read ahead in more processes",
            ),
            (
                Advice::FewCores { asked: Cores::whole(4), gpu_busy: 2_000 },
                "all of 4 cores busy and the GPU only 20 %: ask for more cores (`--cpus`)",
            ),
            (
                smaller(Some("1g.18gb"), Some(share)),
                "GPU 6 % busy, 3GB of 141GB used over 2 h: ask for a slice (`--gpus 1g.18gb`) or \
                 a share (`--gpus 0.1`)",
            ),
            (
                Advice::FewerGpus { gpus: 4, busy: 1_200, over: Millis(780_000), ask: 1 },
                "4 GPUs 12 % busy over 13 min: ask for 1 (`--gpus 1`)",
            ),
            (
                Advice::GpuMemoryBound { busy: 9_900, memory_busy: 9_200 },
                "GPU 99 % busy, its memory 92 %: it waits for memory, smaller types (bf16) or \
                 larger batches help",
            ),
            (
                Advice::MemoryUnused { asked: gb(64), used: gb(3), ask: gb(4) },
                "memory asked 64GB, used 3GB: ask for less (`--memory 4GB`)",
            ),
            (
                Advice::CoresUnused {
                    asked: Cores::whole(16),
                    used: Cores { milli: 1_200 },
                    ask: 2,
                },
                "16 cores asked, 1.2 used: ask for fewer (`--cpus 2`)",
            ),
        ]
    }

    #[test]
    fn every_kind_has_its_name_and_its_sentence() {
        let said = said();
        for (at, (advice, words)) in said.iter().enumerate() {
            assert_eq!(advice.to_string(), *words);
            assert_eq!(advice.kind(), at);
            let json = serde_json::to_value(advice).unwrap();
            assert_eq!(json["kind"], Advice::KINDS[at]);
            assert_eq!(serde_json::from_value::<Advice>(json).unwrap(), *advice);
        }
        assert_eq!(said.len(), Advice::KINDS.len());
        let words = smaller(None, Some(GpuShare(1_000))).to_string();
        assert!(words.ends_with("ask for a share (`--gpus 0.1`)"), "{words}");
        let all = Advice::GpusUnused { gpus: 1, idle: 1, over: Millis(150_000) };
        assert_eq!(all.to_string(), "the GPU was never busy in 2 min: ask for none");
        let none = Advice::OutOfMemory { asked: None, ask: gb(2) };
        assert!(none.to_string().starts_with("the node ran out of memory"));
    }
}
