//! The files of a task on their way to its pilot.

use super::BadMessage;
use crate::wire;
use shipway_model::{Digest, FileMap, JobSpec, OutputFiles, Outputs, TakenOn};

/// The files of a task, as users write them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Files {
    /// Where relative paths begin.
    pub basedir: String,
    pub stdin: Option<String>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub inputs: Vec<FileMap>,
    pub outputs: Option<Outputs>,
    /// The list of files that travel with the job; outputs go back to the server then.
    pub sandbox: Option<Digest>,
}

impl Files {
    pub(super) fn of(spec: &JobSpec) -> Option<Self> {
        let named = spec.streams().next().is_some()
            || !spec.inputs.is_empty()
            || spec.outputs.is_some()
            || spec.sandbox.is_some();
        named.then(|| Files {
            basedir: spec.basedir.clone().unwrap_or_default(),
            stdin: spec.stdin.clone(),
            stdout: spec.stdout.clone(),
            stderr: spec.stderr.clone(),
            inputs: spec.inputs.clone(),
            outputs: spec.outputs.clone(),
            sandbox: spec.sandbox,
        })
    }
}

impl From<Files> for wire::Files {
    fn from(Files { basedir, stdin, stdout, stderr, inputs, outputs, sandbox }: Files) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        let outputs = outputs.map(Into::into);
        let sandbox = sandbox.map(|digest| digest.to_string());
        wire::Files { basedir, stdin, stdout, stderr, inputs, outputs, sandbox }
    }
}

impl Files {
    pub(super) fn read(files: wire::Files) -> Result<Self, BadMessage> {
        let wire::Files { basedir, stdin, stdout, stderr, inputs, outputs, sandbox } = files;
        let inputs = inputs.into_iter().map(Into::into).collect();
        let outputs = outputs.map(Into::into);
        let unknown = |_| BadMessage::Unknown("digest of files that travel");
        let sandbox = sandbox.map(|text| text.parse().map_err(unknown)).transpose()?;
        Ok(Files { basedir, stdin, stdout, stderr, inputs, outputs, sandbox })
    }
}

impl From<FileMap> for wire::FileMap {
    fn from(FileMap { source, target }: FileMap) -> Self {
        wire::FileMap { source, target }
    }
}

impl From<wire::FileMap> for FileMap {
    fn from(wire::FileMap { source, target }: wire::FileMap) -> Self {
        FileMap { source, target }
    }
}

impl From<Outputs> for wire::Outputs {
    fn from(Outputs { files, renamed, to, on }: Outputs) -> Self {
        let (all_new, files) = match files {
            OutputFiles::New => (true, renamed),
            OutputFiles::Listed(files) => (false, files),
        };
        let files = files.into_iter().map(Into::into).collect();
        wire::Outputs { all_new, files, to, only_on_success: on == TakenOn::Success }
    }
}

impl From<wire::Outputs> for Outputs {
    fn from(outputs: wire::Outputs) -> Self {
        let named = outputs.files.into_iter().map(Into::into).collect();
        let (files, renamed) = if outputs.all_new {
            (OutputFiles::New, named)
        } else {
            (OutputFiles::Listed(named), Vec::new())
        };
        let on = if outputs.only_on_success { TakenOn::Success } else { TakenOn::Exit };
        Outputs { files, renamed, to: outputs.to, on }
    }
}
