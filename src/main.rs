//! The binary: hands over to `cli`.

use reduce::exit::ExitCode;

fn main() -> ExitCode {
    reduce::cli::main()
}
