//! Which runtime a site wants its containers made with, and where its program is.
//!
//! It finds and names; what the runtimes do is in the runtime crate.

use shipway_runtime::apptainer::Apptainer;
use shipway_runtime::crun::Crun;
use shipway_runtime::native::{Helper, Keeper, Native};
use shipway_runtime::{Runtime, is_program};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RuntimeChoice {
    #[default]
    Native,
    /// Looked for in `PATH` unless its place is given.
    Other { kind: OtherRuntime, program: Option<PathBuf> },
}

/// Runtimes that are programs of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherRuntime {
    Crun,
    Apptainer,
}

impl OtherRuntime {
    const fn name(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Apptainer => "apptainer",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("`{text}` is not a runtime: it is native, crun or apptainer")]
    Unknown { text: String },
    #[error("native containers need no program: only crun and apptainer do")]
    NativeProgram,
    #[error("the program of a runtime is given by its whole path: {name}=/usr/bin/{name}")]
    NotAPath { name: &'static str },
}

impl FromStr for RuntimeChoice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, program) = match text.split_once('=') {
            Some((name, program)) => (name, Some(PathBuf::from(program))),
            None => (text, None),
        };
        let kind = match name {
            "native" if program.is_some() => return Err(ChoiceError::NativeProgram),
            "native" => return Ok(Self::Native),
            "crun" => OtherRuntime::Crun,
            "apptainer" => OtherRuntime::Apptainer,
            _ => return Err(ChoiceError::Unknown { text: text.into() }),
        };
        if program.as_ref().is_some_and(|path| !path.is_absolute()) {
            return Err(ChoiceError::NotAPath { name: kind.name() });
        }
        Ok(Self::Other { kind, program })
    }
}

impl fmt::Display for RuntimeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Other { kind, program: None } => f.write_str(kind.name()),
            Self::Other { kind, program: Some(path) } => {
                write!(f, "{}={}", kind.name(), path.display())
            }
        }
    }
}

/// A node without the runtime that its site wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the runtime {name} is not on this node: there is no {looked_for}")]
pub struct MissingRuntime {
    name: &'static str,
    looked_for: String,
}

impl MissingRuntime {
    pub fn hint(&self) -> String {
        let name = self.name;
        format!(
            "install {name}, say where it is (--runtime {name}=PROGRAM), or leave --runtime out"
        )
    }
}

impl RuntimeChoice {
    /// The runtime's program; `None` for our own way, which needs none.
    pub fn find(&self, path: Option<OsString>) -> Result<Option<PathBuf>, MissingRuntime> {
        let Self::Other { kind, program } = self else { return Ok(None) };
        let name = kind.name();
        let missing = |looked_for| MissingRuntime { name, looked_for };
        if let Some(program) = program {
            let there = is_program(program).then(|| program.clone());
            return there
                .map(Some)
                .ok_or_else(|| missing(format!("program {}", program.display())));
        }
        let path = path.unwrap_or_default();
        let found = std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|candidate| candidate.is_absolute() && is_program(candidate));
        let searched = || format!("`{name}` in PATH ({})", path.to_string_lossy());
        found.map(Some).ok_or_else(|| missing(searched()))
    }

    /// The runtime itself, for whoever wants to try it; `dir` is made for what it keeps.
    pub fn start(
        &self,
        helper: &Arc<Helper>,
        dir: &Path,
    ) -> Result<Arc<dyn Runtime>, MissingRuntime> {
        let program = self.find(std::env::var_os("PATH"))?;
        if program.is_some() {
            // Where it cannot be made, the trial says so.
            let _ = std::fs::DirBuilder::new().mode(0o700).create(dir);
        }
        Ok(self.make(program, helper, dir, None))
    }

    /// The runtime itself; `dir` is for what it keeps while containers run. Only our own way can
    /// make something of a keeper.
    pub(crate) fn make(
        &self,
        program: Option<PathBuf>,
        helper: &Arc<Helper>,
        dir: &Path,
        keeper: Option<&Arc<Keeper>>,
    ) -> Arc<dyn Runtime> {
        let native = || Native::new(Arc::clone(helper));
        match (self, program) {
            (Self::Other { kind: OtherRuntime::Crun, .. }, Some(program)) => {
                Arc::new(Crun::new(program, dir, Arc::clone(helper)))
            }
            (Self::Other { kind: OtherRuntime::Apptainer, .. }, Some(program)) => {
                Arc::new(Apptainer::new(program, dir, Arc::clone(helper)))
            }
            _ => match keeper {
                Some(keeper) => Arc::new(native().with(Arc::clone(keeper))),
                None => Arc::new(native()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(text: &str) -> Result<RuntimeChoice, ChoiceError> {
        text.parse()
    }

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for text in ["native", "crun", "apptainer", "crun=/opt/bin/crun"] {
            assert_eq!(choice(text).map(|it| it.to_string()).as_deref(), Ok(text));
        }
        let unknown = ChoiceError::Unknown { text: "docker".into() };
        assert_eq!(choice("docker"), Err(unknown));
        assert_eq!(choice("native=/x"), Err(ChoiceError::NativeProgram));
        assert_eq!(choice("crun=bin/crun"), Err(ChoiceError::NotAPath { name: "crun" }));
    }

    #[test]
    fn a_runtime_that_is_not_there_is_named_with_where_it_was_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().as_os_str().to_owned());
        assert_eq!(choice("native").unwrap().find(path.clone()), Ok(None));
        let missing = choice("crun").unwrap().find(path.clone()).unwrap_err();
        let said = missing.to_string();
        assert!(said.contains("crun") && said.contains(&*dir.path().to_string_lossy()), "{said}");
        assert!(missing.hint().contains("--runtime crun=PROGRAM"), "{}", missing.hint());
        std::fs::copy("/bin/true", dir.path().join("crun")).unwrap();
        let found = choice("crun").unwrap().find(path).unwrap();
        assert_eq!(found, Some(dir.path().join("crun")));
        let named = choice("apptainer=/no/apptainer").unwrap().find(None).unwrap_err();
        assert!(named.to_string().contains("/no/apptainer"), "{named}");
    }
}
