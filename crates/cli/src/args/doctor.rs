//! The options of `doctor`.

use clap::Args;
use shipway_model::ImageRef;
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
    /// Where images would be kept; `images` in SHIPWAY_HOME unless given.
    #[arg(long, value_name = "DIR")]
    pub images: Option<PathBuf>,
}
