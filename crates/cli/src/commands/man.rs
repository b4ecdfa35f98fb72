//! `baton man`: the manual page, made from the definition of the command line.

use std::io;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::{args, stdout};

/// Prints the page.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    stdout::print(&page()?)?;
    Ok(ExitCode::SUCCESS)
}

/// The manual page, with a section for every command.
fn page() -> io::Result<Vec<u8>> {
    let mut definition = args::definition();
    definition.build();
    let mut page = Vec::new();
    let man = Man::new(definition.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut roff = Roff::new();
    roff.control("SH", ["COMMANDS"]);
    list(&mut roff, &definition);
    roff.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut roff = Roff::new();
    footer(&mut roff, "SH", &definition);
    roff.to_writer(&mut page)?;
    for command in subcommands(&definition) {
        section(&mut page, command)?;
    }
    Ok(page)
}

/// The commands below one, each with what it does.
fn list(roff: &mut Roff, command: &Command) {
    for command in subcommands(command) {
        let about = command.get_about().map(ToString::to_string);
        roff.control("TP", []);
        roff.text([roman(name(command))]);
        roff.text([roman(about.unwrap_or_default())]);
    }
}

/// The section of a command. It leaves out the flags that all commands have.
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
    list(&mut roff, &own);
    roff.to_writer(page)?;
    if own.get_arguments().any(|arg| !arg.is_hide_set()) {
        let mut options = Vec::new();
        Man::new(own.clone()).render_options_section(&mut options)?;
        // clap makes a section of the options; here they are part of one.
        let options = String::from_utf8_lossy(&options).replace(".SH ", ".SS ");
        page.extend_from_slice(options.as_bytes());
    }
    let mut roff = Roff::new();
    footer(&mut roff, "SS", &own);
    roff.to_writer(page)
}

/// The text below a command's flags: its headings become headings, its lines stay lines.
fn footer(roff: &mut Roff, heading: &str, command: &Command) {
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

/// The commands below one, except `help` and those that the program starts itself.
fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| command.get_name() != "help" && !command.is_hide_set())
}

/// The name of a command as the user types it, such as `baton run`.
fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}
