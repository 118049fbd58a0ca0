//! Which instances a MIG slice is made of: two questions that NVML answers and its safe wrapper
//! does not ask.
#![allow(unsafe_code, reason = "the wrapper of NVML has no safe form of these two functions")]

use nvml_wrapper::Device;
use std::ffi::c_uint;

/// What NVML answers when all is well.
const SUCCESS: c_uint = 0;

/// The numbers of a slice's GPU instance and compute instance; `None` where NVML does not tell.
pub(super) fn instances(slice: &Device<'_>) -> Option<(u32, u32)> {
    let library = slice.nvml().lib();
    let gpu_instance = library.nvmlDeviceGetGpuInstanceId.as_ref().ok()?;
    let compute_instance = library.nvmlDeviceGetComputeInstanceId.as_ref().ok()?;
    let (mut gpu, mut compute): (c_uint, c_uint) = (0, 0);
    // SAFETY: the handle is the slice's own and is used while the slice, and with it the library,
    // is borrowed; each function writes one number to where it is told, and keeps nothing.
    let answers = unsafe {
        let handle = slice.handle();
        [gpu_instance(handle, &raw mut gpu), compute_instance(handle, &raw mut compute)]
    };
    answers.iter().all(|answer| *answer == SUCCESS).then_some((gpu, compute))
}
