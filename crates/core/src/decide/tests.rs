//! The life of jobs, told as commands; the whole state is checked after every step.
