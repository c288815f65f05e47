<<<<<<< HEAD
//! Integration tests, in one binary.

mod contract_sandbox;
mod layers;
=======
//! Checks of the whole program.

mod export;
mod records;
>>>>>>> export
mod support;
