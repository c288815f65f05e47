//! The `curate` binary.

fn main() -> std::process::ExitCode {
    curate::cli::main().into()
}
