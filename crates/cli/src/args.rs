//! The command line: every command, every flag, and their help.

mod acl;
mod connection;
mod cron;
mod doctor;
#[cfg(test)]
mod documented;
mod durability;
mod failed;
pub(crate) mod handler;
mod health;
mod help;
mod http;
pub(crate) mod old_spellings;
mod pause;
mod push;
pub(crate) mod run;
pub(crate) mod source;
mod switch;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use baton_print::errln;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use acl::AclArgs;
pub(crate) use connection::ConnectionArgs;
pub(crate) use cron::CronCommand;
pub(crate) use doctor::DoctorArgs;
pub(crate) use durability::DurabilityArgs;
pub(crate) use failed::{ErrorsArgs, FilterArgs, GetErrorsArgs, GroupBy, Seqs, SettleArgs, Since};
pub(crate) use health::HealthArgs;
pub(crate) use http::WebArgs;
pub(crate) use pause::{DrainArgs, PauseArgs};
pub(crate) use run::{LogFormat, RunArgs, concurrency, work};

use crate::commands::{bench, demo};
use crate::stdout;

/// One generator, any number of workers, every message exactly once, on one Redis.
///
/// Start as many copies as you like on the same Redis. One copy generates messages, all others
/// handle them, and each message is committed exactly once even if any copy is killed.
#[derive(Parser)]
#[command(
    name = "baton",
    version,
    override_usage = "baton [COMMAND] [OPTIONS]\n       baton                 the same as baton run",
    after_help = help::SHORT,
    after_long_help = help::LONG,
    max_term_width = 100
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one node of the fleet (the default)
    #[command(after_help = help::RUN)]
    Run(RunArgs),
    /// Print all failed messages, and remove what was printed
    ///
    /// Prints one line per message: time, sequence number, node, reason and text, separated by
    /// tabs. Control characters are escaped, so one message is one line. A dash stands for an
    /// unknown field. The command removes only what it printed: a message stays in the store if
    /// this command dies, the reader of the pipe ends early, or the disk is full.
    #[command(
        name = "getErrors",
        aliases = ["get-errors", "geterrors"],
        after_help = help::GET_ERRORS
    )]
    GetErrors(GetErrorsArgs),
    /// Print failed messages, all or some, and remove none
    #[command(after_help = help::ERRORS)]
    Errors(ErrorsArgs),
    /// Give failed messages to the workers again
    ///
    /// Says how many messages match, lists some, and asks. It acts on exactly those messages: one
    /// that fails later stays.
    #[command(after_help = help::RETRY)]
    Retry(SettleArgs),
    /// Remove failed messages for good
    ///
    /// Says how many messages match, lists some, and asks. It acts on exactly those messages: one
    /// that fails later stays.
    #[command(after_help = help::DROP)]
    Drop(SettleArgs),
    /// Print who generates, who works, and where every message is
    #[command(after_help = help::STATUS)]
    Status(StatusArgs),
    /// Watch the fleet live in the terminal
    #[command(after_help = help::TOP)]
    Top,
    /// Serve a web page about the fleet, with metrics and health for programs
    #[command(after_help = help::WEB)]
    Web(WebArgs),
    /// Say by the exit code whether the fleet is healthy: for probes and health checks
    ///
    /// Asks the node or the page that --http names, or else Redis. Prints one line: why not, if the
    /// exit code is 1.
    #[command(after_help = help::HEALTH)]
    Health(HealthArgs),
    /// Pause the generator, the workers or both, until `baton resume`
    ///
    /// Redis accepts no message of a paused generator, and hands out none to paused workers. What
    /// workers have claimed ends. The pause is in Redis: it outlives every node, and holds for those
    /// that start later.
    #[command(after_help = help::PAUSE)]
    Pause(PauseArgs),
    /// End the pause of the generator, the workers or both
    #[command(after_help = help::RESUME)]
    Resume(PauseArgs),
    /// Pause the generator, and wait until every message has ended
    ///
    /// Without --wait it only pauses the generator. The generator stays paused until
    /// `baton resume generator`, also if the command is interrupted.
    #[command(after_help = help::DRAIN)]
    Drain(DrainArgs),
    /// Print the rules of Redis users that can do what Baton does, and no more
    ///
    /// Prints one line for each user, to paste into redis-cli: its keys, its channels and its single
    /// commands. A user that is there keeps its passwords, and loses every right that its line does
    /// not name. Nothing connects to the server; if you name one, its URL says whether it is a
    /// cluster, and which database it is.
    #[command(after_help = help::ACL)]
    Acl(AclArgs),
    /// Check a server before a fleet lives there
    ///
    /// Prints one line for each check: ok, warn or FAIL, what it found, and what to do. It writes
    /// nothing that lasts, and is safe beside a running fleet. Log in as the user of the nodes: its
    /// rights are checked, too.
    #[command(after_help = help::DOCTOR)]
    Doctor(DoctorArgs),
    /// Put back at once what dead workers held, and forget dead nodes
    ///
    /// Also frees the lease of a dead generator. You never need it: the fleet does the same by
    /// itself a little later. It loses no message.
    Clean,
    /// Explain a cron expression, as `run --cron` takes it
    #[command(subcommand)]
    Cron(CronCommand),
    /// Control the server that `baton run` starts if no Redis answers
    #[command(subcommand)]
    Server(ServerCommand),
    /// Watch a fleet survive kill -9, on a private server
    Demo(demo::DemoArgs),
    /// Time and audit a million messages, beside an unsafe queue
    ///
    /// Starts real processes, one generator and --workers workers, on a private server or on the
    /// one that you name. Afterwards it accounts for every message: what was published and what
    /// was committed, the errors store, and the texts themselves. The exit code is 1 if a message
    /// was lost or committed twice.
    #[command(after_help = help::BENCH)]
    Bench(bench::BenchArgs),
    /// One copy of a bench's fleet
    #[command(hide = true)]
    BenchNode(bench::node::NodeArgs),
    /// One copy of a bench's unsafe queue
    #[command(hide = true)]
    BenchFloor(bench::floor::FloorArgs),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example:\n  baton man | man -l -")]
    Man,
}

#[derive(Subcommand)]
pub(crate) enum ServerCommand {
    /// Print whether it runs, its address, and where its data is (exit 1 if it does not run)
    Status,
    /// Stop it; its data stays
    Stop,
}

#[derive(clap::Args)]
pub(crate) struct FormatArgs {
    /// Print JSON, one object per line
    #[arg(long, env = "BATON_JSON")]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// Repeat every second until Ctrl-C, even while Redis does not answer
    #[arg(long, env = "BATON_WATCH")]
    pub(crate) watch: bool,
}

/// The definition of the whole command line.
pub(crate) fn definition() -> clap::Command {
    tidy(Args::command())
}

/// Why a command line is not carried out.
pub(crate) enum Refused {
    /// Help was asked for, or something is wrong that holds no credentials.
    Parser(clap::Error),
    /// Something is wrong; these words hold no credentials.
    Words(String),
}

/// Reads a command line. Prints help and complaints; the error is the exit code that follows.
pub(crate) fn parse(argv: Vec<OsString>) -> Result<Args, ExitCode> {
    read(argv).map_err(|refused| match refused {
        Refused::Parser(error) if error.use_stderr() => {
            // The exit code says it too.
            let _ = error.print();
            ExitCode::from(2)
        }
        Refused::Parser(help) => match help.print().and_then(|()| io::stdout().flush()) {
            // A reader that is gone has read enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                errln!("baton: cannot write to stdout: {}", stdout::plain(&error));
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        Refused::Words(words) => {
            baton_print::err(format_args!("{words}"));
            ExitCode::from(2)
        }
    })
}

/// Reads a command line, and prints nothing.
pub(crate) fn read(argv: Vec<OsString>) -> Result<Args, Refused> {
    let definition = definition();
    let argv = old_spellings::canonical(argv, &definition).map_err(|complaint| {
        let words = format!("error: {complaint}\n\nFor more information, try '--help'.\n");
        Refused::Words(redact(&words).unwrap_or(words))
    })?;
    let parsed = definition.try_get_matches_from(argv).and_then(|matches| {
        let mut args = Args::from_arg_matches(&matches)?;
        args.connection.typed = connection::Typed::new(|flag| is_typed(&matches, flag));
        Ok(args)
    });
    parsed.map_err(|error| {
        let complaint = error.use_stderr().then(|| error.render().to_string());
        match complaint.and_then(|text| redact(&text)) {
            Some(words) => Refused::Words(words),
            None => Refused::Parser(error),
        }
    })
}

/// Whether a flag was typed, not taken from the environment.
fn is_typed(matches: &ArgMatches, flag: &str) -> bool {
    matches.value_source(flag) == Some(ValueSource::CommandLine)
}

/// Gives all flags the same rules: an empty variable counts as unset, every switch reads its variable
/// in the same words, and the help does not print values of variables, because a URL may hold a password.
fn tidy(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let empty = arg
            .get_env()
            .and_then(std::env::var_os)
            .is_some_and(|value| value.is_empty());
        let arg = arg.hide_env_values(true);
        let arg = match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(switch::Switch),
            _ => arg,
        };
        if empty {
            arg.env(clap::builder::Resettable::Reset)
        } else {
            arg
        }
    });
    let names: Vec<String> = command
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, tidy))
}

/// The text without credentials, if it has a URL with some. Cuts everything between the first URL's
/// scheme and the last `@`, because a password may have any character in it.
pub(crate) fn redact(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (_, host) = rest.rsplit_once('@')?;
    Some(format!("{scheme}://…@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }

    #[test]
    fn every_flag_but_a_choice_of_failed_messages_reads_a_variable_of_its_name() {
        const CHOICES: [&str; 7] = ["reason", "node", "since", "seq", "by", "yes", "all"];
        fn check(command: &clap::Command) {
            for arg in command.get_arguments() {
                let Some(long) = arg
                    .get_long()
                    .filter(|long| !["help", "version"].contains(long))
                else {
                    continue;
                };
                let variable = match long {
                    "redis" => "REDIS_URL".to_owned(),
                    long => format!("BATON_{}", long.to_uppercase().replace('-', "_")),
                };
                let expected = (!CHOICES.contains(&long)).then_some(variable.as_str());
                let reads = arg.get_env().and_then(|name| name.to_str());
                assert_eq!(reads, expected, "--{long}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&definition());
    }

    #[test]
    fn no_flag_reads_a_variable_that_commands_get() {
        fn check(command: &clap::Command) {
            let read = command.get_arguments().filter_map(clap::Arg::get_env);
            for variable in read {
                let mut theirs = baton_exec::VARIABLES
                    .iter()
                    .chain(&baton_exec::SOURCE_VARIABLES);
                let is_theirs = theirs.any(|name| variable == *name);
                assert!(!is_theirs, "{}", variable.display());
            }
            command.get_subcommands().for_each(check);
        }
        check(&definition());
    }

    #[test]
    fn credentials_in_a_url_are_left_out_of_complaints() {
        assert_eq!(redact("no URL here"), None);
        assert_eq!(redact("bad 'redis://h'"), None);
        for (text, redacted) in [
            (
                "bad 'redis://u:p@ss@h:1/2' and 'redis://h'",
                "bad 'redis://…@h:1/2' and 'redis://h'",
            ),
            ("'redis://u:two words\n://@h'", "'redis://…@h'"),
            ("'redis://\u{3000}u@h'", "'redis://…@h'"),
            ("'redis://u:p@h' or 'redis://v:q@i'", "'redis://…@i'"),
        ] {
            assert_eq!(redact(text).as_deref(), Some(redacted));
        }
    }
}
