//! `baton man` and `baton completions`: made from the definition of the command line.

use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args;

/// The manual page, with a section for every command.
pub(crate) fn page() -> io::Result<Vec<u8>> {
    let mut definition = args::definition();
    definition.build();
    let mut page = Vec::new();
    let man = Man::new(definition.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut roff = Roff::new();
    commands(&mut roff, &definition);
    roff.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut roff = Roff::new();
    teaching(&mut roff, "SH", &definition);
    roff.to_writer(&mut page)?;
    for command in subcommands(&definition) {
        section(&mut page, command)?;
    }
    Ok(page)
}

/// The completion script for a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::definition(), "baton", &mut script);
    script
}

/// What there is to do, a line for each command.
fn commands(roff: &mut Roff, definition: &Command) {
    roff.control("SH", ["COMMANDS"]);
    for command in subcommands(definition) {
        let about = command.get_about().map(ToString::to_string);
        roff.control("TP", []);
        roff.text([roman(name(command))]);
        roff.text([roman(about.unwrap_or_default())]);
    }
}

/// A section of its own for a command. The flags that all commands have are not repeated.
fn section(page: &mut Vec<u8>, command: &Command) -> io::Result<()> {
    let own = command.clone().mut_args(|arg| {
        let everywhere = arg.is_global_set() || arg.get_id() == "help";
        arg.hide(everywhere)
    });
    let mut roff = Roff::new();
    roff.control("SH", [name(command).to_uppercase().as_str()]);
    let about = own.get_long_about().or(own.get_about());
    for paragraph in about
        .map(ToString::to_string)
        .unwrap_or_default()
        .split("\n\n")
    {
        roff.control("PP", []);
        roff.text([roman(paragraph)]);
    }
    for command in subcommands(&own) {
        let about = command.get_about().map(ToString::to_string);
        roff.control("TP", []);
        roff.text([roman(name(command))]);
        roff.text([roman(about.unwrap_or_default())]);
    }
    roff.to_writer(page)?;
    if own.get_arguments().any(|arg| !arg.is_hide_set()) {
        let mut options = Vec::new();
        Man::new(own.clone()).render_options_section(&mut options)?;
        // What is a section of a page there is a part of a section here.
        let options = String::from_utf8_lossy(&options).replace(".SH ", ".SS ");
        page.extend_from_slice(options.as_bytes());
    }
    let mut roff = Roff::new();
    teaching(&mut roff, "SS", &own);
    roff.to_writer(page)
}

/// The text below a command's flags: its headings become headings, its lines stay lines.
fn teaching(roff: &mut Roff, heading: &str, command: &Command) {
    let text = command.get_after_long_help().or(command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    for block in text.split("\n\n") {
        let mut lines = block.lines().peekable();
        match lines.next_if(|line| line.ends_with(':') && !line.starts_with(' ')) {
            Some(title) => roff.control(
                heading,
                [title.trim_end_matches(':').to_uppercase().as_str()],
            ),
            None => roff.control("PP", []),
        };
        roff.control("nf", []);
        lines.for_each(|line| {
            roff.text([roman(line)]);
        });
        roff.control("fi", []);
    }
}

/// The commands below one, without the one that shows their help.
fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
}

/// `baton run`.
fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}
