//! Compiles the pilot protocol without an external `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/pilot.proto");
    let files = protox::compile(["proto/pilot.proto"], ["proto"])?;
    // Its password must not be printed by accident; see `link.rs`.
    let secret = ["shipway.pilot.v1.RegistryLogin"];
    let codec = "crate::codec::LinkCodec";
    let builder = tonic_prost_build::configure().btree_map(".").skip_debug(secret);
    // Most say nothing of it, and it is several times as large as all the rest.
    let builder = builder.boxed("shipway.pilot.v1.Held.usage");
    builder.codec_path(codec).compile_fds(files)?;
    Ok(())
}
