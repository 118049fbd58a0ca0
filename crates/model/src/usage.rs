//! What an attempt has used: plain sums, as its pilot measured them, and what it was given.
//!
//! Whole numbers with the unit in the name; parts of a whole are in ten-thousandths, like shares of
//! GPUs. What was not measured is absent, which is not the same as nothing. Who measures is the
//! pilot's, what is made of it is `advice.rs`; how it went over time is `series.rs`.

use serde::{Deserialize, Serialize};

/// The whole, in the parts that busy times and shares are counted in.
pub const WHOLE: u64 = 10_000;

/// No sum is larger: more than anything counts to, and what every reader of JSON and SQL can hold.
pub const LARGEST: u64 = 1 << 53;

macro_rules! sums {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// The sums of one attempt.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(default)]
        pub struct Usage {
            $($(#[doc = $words])+
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $name: Option<u64>,)+
        }

        impl Usage {
            /// The names of all sums, in the order in which tables and messages have them. New ones
            /// come last.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            pub fn values(&self) -> Vec<Option<u64>> {
                vec![$(self.$name),+]
            }

            /// The same from a table's row. What is missing at its end was not known yet.
            pub fn of_values(values: impl IntoIterator<Item = Option<u64>>) -> Self {
                let mut values = values.into_iter();
                Usage { $($name: values.next().flatten()),+ }
            }
        }
    };
}

sums! {
    /// How long it was measured, by the pilot's steady clock.
    wall_ms,
    /// How often the pilot has looked.
    looks,
    /// Time on processors, of all its processes.
    cpu_ms,
    /// The most memory at once that could not be taken back, in bytes.
    memory,
    /// Bytes that came from storage, and went there, as the kernel counts them.
    read,
    /// Bytes that went to storage.
    written,
    /// How long all of it waited for storage.
    waited_ms,
    /// GPU time that it was given: devices times share times time. Known to the server itself.
    gpu_given_ms,
    /// Devices, or slices, that were looked at.
    gpus,
    /// Those of them on which nothing ever ran.
    gpus_idle,
    /// How busy they were on average, in ten-thousandths.
    gpu_busy,
    /// And at most, over one look.
    gpu_busy_max,
    /// How long their memory was busy on average, in ten-thousandths.
    gpu_memory_busy,
    /// The most memory used on one device, in bytes.
    gpu_memory,
    /// What one device has of it.
    gpu_memory_of,
    /// Energy, in thousandths of a joule; of a shared device its part.
    energy_mj,
    /// The most power drawn at once by all devices, in thousandths of a watt.
    power_max_mw,
    /// The hottest device, in degrees Celsius.
    temperature_max,
    /// How long clocks were held back by heat or power.
    throttled_ms,
    /// Why, as NVML's bits.
    throttle_reasons,
    /// Memory errors that could not be corrected, while it ran.
    ecc_errors,
    /// How full the multiprocessors were on average, in ten-thousandths.
    occupancy,
}

impl Usage {
    /// Nothing is known.
    pub fn is_empty(&self) -> bool {
        self.values().iter().all(Option::is_none)
    }

    /// As much of it as can be: parts are of a whole, and no number is larger than readers can
    /// hold. For what others say.
    #[must_use]
    pub fn bounded(&self) -> Usage {
        let within = |value: Option<u64>, most: u64| value.map(|value| value.min(most));
        let all = Usage::of_values(self.values().into_iter().map(|value| within(value, LARGEST)));
        Usage {
            gpu_busy: within(all.gpu_busy, WHOLE),
            gpu_busy_max: within(all.gpu_busy_max, WHOLE),
            gpu_memory_busy: within(all.gpu_memory_busy, WHOLE),
            occupancy: within(all.occupancy, WHOLE),
            gpus_idle: within(all.gpus_idle, all.gpus.unwrap_or(0)),
            throttled_ms: within(all.throttled_ms, all.wall_ms.unwrap_or(0)),
            waited_ms: within(all.waited_ms, all.wall_ms.unwrap_or(0)),
            ..all
        }
    }
}

/// A part of a whole, in ten-thousandths.
pub fn part_of(part: u64, whole: u64) -> u64 {
    let parts = u128::from(part) * u128::from(WHOLE) / u128::from(whole.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// GPU time, in milliseconds: of so many devices, each or the share of one, for so long.
pub fn gpu_time(devices: u64, share: u64, ran_ms: u64) -> u64 {
    let time = u128::from(devices.saturating_mul(share)) * u128::from(ran_ms);
    u64::try_from(time / u128::from(WHOLE)).unwrap_or(u64::MAX).min(LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_what_was_put_into_it() {
        let names = Usage::NAMES.len() as u64;
        let usage = Usage::of_values((0..names).map(|at| (at % 3 > 0).then_some(at)));
        assert_eq!(Usage::of_values(usage.values()), usage);
        assert_eq!((usage.looks, usage.cpu_ms, usage.memory), (Some(1), Some(2), None));
        let json = serde_json::to_string(&usage).unwrap();
        assert_eq!(serde_json::from_str::<Usage>(&json).unwrap(), usage);
        assert!(!json.contains("null") && !usage.is_empty(), "{json}");
        let older = Usage::of_values([Some(5)]);
        assert_eq!(older, Usage { wall_ms: Some(5), ..Usage::default() });
        assert!(Usage::default().is_empty());
    }

    #[test]
    fn what_others_say_is_held_to_what_can_be() {
        let wild = Usage::of_values(Usage::NAMES.iter().map(|_| Some(u64::MAX)));
        let held = wild.bounded();
        assert!(held.values().into_iter().flatten().all(|value| value <= LARGEST));
        assert_eq!((held.gpu_busy, held.occupancy), (Some(WHOLE), Some(WHOLE)));
        let idle = Usage { gpus: Some(2), gpus_idle: Some(9), ..Usage::default() };
        assert_eq!(idle.bounded().gpus_idle, Some(2));
        let waited = Usage { wall_ms: Some(10), waited_ms: Some(11), ..Usage::default() };
        assert_eq!(waited.bounded().waited_ms, Some(10));
        assert_eq!(Usage::default().bounded(), Usage::default(), "nothing is made up");
    }

    #[test]
    fn gpu_time_is_devices_times_share_times_time() {
        assert_eq!(gpu_time(2, WHOLE, 1_000), 2_000);
        assert_eq!(gpu_time(1, 2_500, 1_000), 250);
        assert_eq!(gpu_time(u64::MAX, WHOLE, u64::MAX), LARGEST);
        assert_eq!((part_of(1, 4), part_of(1, 0), part_of(3, 2)), (2_500, 10_000, 15_000));
    }
}
