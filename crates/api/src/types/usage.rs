//! What attempts have used, as people see it: advice with its sentence, and how it went over time.
//! The sums are the model's own (`shipway_model::Usage`).

use serde::{Deserialize, Serialize};
use shipway_model::series::Point;
use shipway_model::{Advice, Attempt, Series};
use utoipa::ToSchema;

/// A piece of advice, and its sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdviceView {
    #[serde(flatten)]
    pub advice: Advice,
    pub words: String,
}

impl From<Advice> for AdviceView {
    fn from(advice: Advice) -> Self {
        AdviceView { words: advice.to_string(), advice }
    }
}

/// How an attempt went over time. Columns are as long as there are points; those of GPUs are empty
/// where none was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesView {
    pub attempt: Attempt,
    /// How long a point is, in milliseconds, from the attempt's start on; the last may be shorter.
    /// 0 where there are none.
    pub step_ms: u64,
    /// Thousandths of a core, on average.
    pub cpu_milli: Vec<u32>,
    /// The most memory, in MiB.
    pub memory_mib: Vec<u32>,
    /// How busy its GPUs were on average, in ten-thousandths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_busy: Vec<u32>,
    /// The most memory on one of them, in MiB.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_mib: Vec<u32>,
    /// Power of its GPUs on average, in watts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub power_w: Vec<u32>,
}

impl SeriesView {
    pub fn of(attempt: Attempt, series: &Series) -> Self {
        let column = |value: fn(&Point) -> u32| series.points.iter().map(value).collect();
        let of_gpu =
            |value: fn(&Point) -> u32| if series.has_gpu { column(value) } else { Vec::new() };
        SeriesView {
            attempt,
            step_ms: series.step_ms,
            cpu_milli: column(|point| point.cpu),
            memory_mib: column(|point| point.memory),
            gpu_busy: of_gpu(|point| point.gpu),
            gpu_memory_mib: of_gpu(|point| point.gpu_memory),
            power_w: of_gpu(|point| point.power),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub struct SeriesQuery {
    /// The newest one when not named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}
