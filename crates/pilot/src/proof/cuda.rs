//! One kernel on one GPU by the driver's own library, behind one safe function.
//!
//! The only file of this crate with unsafe code: foreign functions have no safe form. The library
//! is loaded when it is needed, so that no toolkit is needed to build and no driver to start. It
//! is meant for a process of its own that ends right after (`kernel.rs`): nothing is given back,
//! and a library that crashes takes nobody else with it.
#![allow(unsafe_code, reason = "libcuda is a C library that exists only on nodes with a GPU")]

use libloading::{Library, Symbol};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

/// Under this name every NVIDIA driver installs it.
const LIBRARY: &str = "libcuda.so.1";
/// What every function answers when all is well.
const SUCCESS: c_int = 0;
/// Threads in one group of the grid: a multiple of what runs in step on every GPU.
const GROUP: c_uint = 256;

type Status = c_int;
type Pointer = *mut c_void;
type Address = u64;

/// Which call did not succeed, and what the driver says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) call: &'static str,
    pub(super) error: String,
}

/// What ran, and what came back.
#[derive(Debug)]
pub(super) struct Ran {
    /// As the driver numbers them: 12080 is 12.8.
    pub(super) cuda: i32,
    pub(super) output: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Cuda(Library);

/// Looks a function up and calls it; an error when either fails.
macro_rules! call {
    ($cuda:expr, $name:literal, ($($type:ty),*), ($($value:expr),*)) => {{
        // SAFETY: the signature is the one of the driver's interface, which never changes for a
        // name. All pointers lead to live memory of this function of at least the size that the
        // call reads or writes.
        let status = unsafe {
            let function: Symbol<'_, unsafe extern "C" fn($($type),*) -> Status> =
                $cuda.0.get(concat!($name, "\0").as_bytes()).map_err(|error| Refused {
                    call: $name,
                    error: error.to_string(),
                })?;
            function($($value),*)
        };
        $cuda.succeeded($name, status)
    }};
}

impl Cuda {
    pub(super) fn load() -> Result<Self, String> {
        // SAFETY: this runs the initialisers of the driver's library, in a process made for that.
        let library = unsafe { Library::new(LIBRARY) };
        library.map(Cuda).map_err(|error| error.to_string())
    }

    /// Runs `name(input, output, length)` of the PTX text, a thread for each number, on the one
    /// device that this process can see.
    pub(super) fn run(&self, ptx: &CStr, name: &CStr, input: &[u32]) -> Result<Ran, Refused> {
        let cuda = self.device()?;
        let mut module: Pointer = null_mut();
        let text = ptx.as_ptr().cast::<c_void>();
        call!(self, "cuModuleLoadData", (*mut Pointer, *const c_void), (&raw mut module, text))?;
        let mut function: Pointer = null_mut();
        call!(
            self,
            "cuModuleGetFunction",
            (*mut Pointer, Pointer, *const c_char),
            (&raw mut function, module, name.as_ptr())
        )?;
        let bytes = size_of_val(input);
        let (source, target) = (self.room(bytes)?, self.room(bytes)?);
        call!(
            self,
            "cuMemcpyHtoD_v2",
            (Address, *const c_void, usize),
            (source, input.as_ptr().cast(), bytes)
        )?;
        self.launch(function, source, target, input.len())?;
        call!(self, "cuCtxSynchronize", (), ())?;
        let mut output = vec![0_u32; input.len()];
        call!(
            self,
            "cuMemcpyDtoH_v2",
            (*mut c_void, Address, usize),
            (output.as_mut_ptr().cast(), target, bytes)
        )?;
        Ok(Ran { cuda, output })
    }

    /// Makes the device ready for this thread, and tells the driver's version.
    fn device(&self) -> Result<i32, Refused> {
        call!(self, "cuInit", (c_uint), (0))?;
        let (mut cuda, mut count, mut device) = (0, 0, 0);
        call!(self, "cuDriverGetVersion", (*mut c_int), (&raw mut cuda))?;
        call!(self, "cuDeviceGetCount", (*mut c_int), (&raw mut count))?;
        if count != 1 {
            let error = format!("{count} devices are visible, and it should be the one");
            return Err(Refused { call: "cuDeviceGetCount", error });
        }
        call!(self, "cuDeviceGet", (*mut c_int, c_int), (&raw mut device, 0))?;
        let mut context: Pointer = null_mut();
        call!(self, "cuDevicePrimaryCtxRetain", (*mut Pointer, c_int), (&raw mut context, device))?;
        call!(self, "cuCtxSetCurrent", (Pointer), (context))?;
        Ok(cuda)
    }

    fn room(&self, bytes: usize) -> Result<Address, Refused> {
        let mut address: Address = 0;
        call!(self, "cuMemAlloc_v2", (*mut Address, usize), (&raw mut address, bytes))?;
        Ok(address)
    }

    fn launch(
        &self,
        function: Pointer,
        mut source: Address,
        mut target: Address,
        length: usize,
    ) -> Result<(), Refused> {
        let mut count = c_uint::try_from(length).expect("the list is short");
        let mut arguments: [Pointer; 3] =
            [(&raw mut source).cast(), (&raw mut target).cast(), (&raw mut count).cast()];
        let groups = count.div_ceil(GROUP);
        call!(
            self,
            "cuLaunchKernel",
            (
                Pointer,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                c_uint,
                Pointer,
                *mut Pointer,
                *mut Pointer
            ),
            (
                function,
                groups,
                1,
                1,
                GROUP,
                1,
                1,
                0,
                null_mut(),
                arguments.as_mut_ptr(),
                null_mut()
            )
        )
    }

    fn succeeded(&self, call: &'static str, status: Status) -> Result<(), Refused> {
        if status == SUCCESS {
            return Ok(());
        }
        Err(Refused { call, error: format!("{} ({status})", self.name_of(status)) })
    }

    fn name_of(&self, status: Status) -> String {
        let mut name: *const c_char = null();
        // SAFETY: as for every call; the driver writes one pointer to a text that is part of it.
        let found = unsafe {
            let function: Result<
                Symbol<'_, unsafe extern "C" fn(Status, *mut *const c_char) -> Status>,
                _,
            > = self.0.get(b"cuGetErrorName\0");
            function.map(|function| function(status, &raw mut name))
        };
        if !matches!(found, Ok(SUCCESS)) || name.is_null() {
            return "an error without a name".into();
        }
        // SAFETY: the driver answered with success, so this is a text of its own that ends with
        // NUL and lives as long as the library, which is loaded.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}
