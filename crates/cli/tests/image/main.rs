//! Images and containers with the real binary: the store by itself, and tasks that run on images.

mod archive;
mod containers;
mod store;
