//! The options of `doctor`.

use clap::Args;
use shipway_model::ImageRef;
use shipway_pilot::runtimes::RuntimeChoice;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Look whether this image can be had (docker://NAME:TAG, sif:FILE, …); nothing is fetched.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<ImageRef>,
    /// Leave out what takes long: the kernel on each GPU.
    #[arg(long)]
    pub quick: bool,
    /// The folder a pilot would use; `pilot` in SHIPWAY_HOME unless given.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// What containers would be made with: native unless given, crun or apptainer[=PROGRAM].
    #[arg(long, value_name = "NAME[=PROGRAM]")]
    pub runtime: Option<RuntimeChoice>,
    /// Where images would be kept; `images` in SHIPWAY_HOME unless given.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
}
