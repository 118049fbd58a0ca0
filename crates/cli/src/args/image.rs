//! The options of `image`: what is kept on this machine, with no server involved.

use clap::{Args, Subcommand};
use shipway_model::{Bytes, ImageRef, Millis};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Fetch an image, verify it and unpack it; prints its digest.
    #[command(after_long_help = super::examples::IMAGE)]
    Pull {
        /// docker://NAME:TAG, oci:DIR[:TAG], docker-archive:FILE or sif:FILE
        reference: ImageRef,
        /// A file with passwords, in the form `docker login` writes; read before ~/.docker. The
        /// variable SHIPWAY_REGISTRY_LOGINS names one for all commands.
        #[arg(long, value_name = "FILE")]
        credentials: Option<PathBuf>,
        /// Reach this registry without TLS; loopback always is (repeatable). The variable
        /// SHIPWAY_INSECURE_REGISTRIES names some for all commands, with commas between them.
        #[arg(long, value_name = "HOST[:PORT]")]
        insecure: Vec<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List the images.
    #[command(after_long_help = super::examples::IMAGE)]
    List {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Show an image: its layers, what it shares, its labels, its CUDA version.
    #[command(after_long_help = super::examples::IMAGE)]
    Show {
        /// A reference, a digest, or the beginning of a digest.
        image: String,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Remove images, and the files only they have.
    #[command(after_long_help = super::examples::IMAGE)]
    Rm {
        /// References, digests, or beginnings of digests.
        #[arg(required = true)]
        images: Vec<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Make room: remove images by last use and by size, and files no image needs.
    #[command(after_long_help = super::examples::IMAGE)]
    Gc {
        /// Remove images nobody has used for this long.
        #[arg(long, value_name = "TIME")]
        unused_for: Option<Millis>,
        /// Remove images, the longest unused first, until the rest fits.
        #[arg(long, value_name = "SIZE")]
        max_size: Option<Bytes>,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Where images are kept; `images` in SHIPWAY_HOME unless given.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}
