fn main() {}
mod program;
