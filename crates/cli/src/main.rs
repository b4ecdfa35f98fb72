//! The `baton` program. All of it is in the library beside.

fn main() -> std::process::ExitCode {
    baton_cli::main()
}
