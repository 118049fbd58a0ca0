//! AMD: one node for all, one for each. The libraries come with the image.

use super::{Access, Assigned, GpuError, require};
use std::path::Path;

pub(super) fn nodes(
    node: &Path,
    assigned: &[Assigned],
    access: &mut Access,
) -> Result<(), GpuError> {
    for device in assigned {
        let Assigned::Amd { render } = device else { continue };
        let all = require(node, Path::new("/dev/kfd"))?;
        if !access.devices.contains(&all) {
            access.devices.push(all);
        }
        let own = format!("/dev/dri/renderD{render}");
        access.devices.push(require(node, Path::new(&own))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn only_the_assigned_ones() {
        let node = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(node.path().join("dev/dri")).unwrap();
        for name in ["dev/kfd", "dev/dri/renderD128", "dev/dri/renderD129", "dev/dri/card0"] {
            std::fs::write(node.path().join(name), "").unwrap();
        }
        let access = super::super::access(node.path(), &[Assigned::Amd { render: 129 }]).unwrap();
        assert_eq!(access.devices, ["/dev/kfd", "/dev/dri/renderD129"].map(PathBuf::from));
        let error = super::super::access(node.path(), &[Assigned::Amd { render: 130 }]);
        assert!(error.unwrap_err().to_string().contains("renderD130"));
    }
}
