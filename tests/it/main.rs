fn main() {}
mod program;
mod passes;
