//! The server of a run.

use std::fs;
use std::path::Path;

use anyhow::Result;
use baton_server::{Fsync, PrivateServer};

use super::{Settings, clock};

/// A server that keeps its data, whose clock can jump, and that survives a full disk as far as
/// its own code goes: without the trap, the signal of a too large file would end it.
pub(super) fn start(settings: &Settings, folder: &Path, time: &Path) -> Result<PrivateServer> {
    let program = match &settings.server_program {
        Some(program) => program.clone(),
        None => baton_server::find_program()?,
    };
    let mut words = String::new();
    if let Some(library) = &settings.faketime {
        fs::write(time, "+0")?;
        for (name, value) in clock::variables(library, time) {
            words.push_str(&format!("{name}='{value}' "));
        }
    }
    let script = folder.join("server");
    let text = format!(
        "#!/bin/sh\ntrap '' XFSZ\nexec env {words}'{}' \"$@\"\n",
        program.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let fsync = match settings.always {
        true => Fsync::Always,
        false => Fsync::EverySec,
    };
    let builder = PrivateServer::builder().appendonly(fsync).program(script);
    // Servers before 7.0 always have DEBUG, and do not know the setting.
    let with_debug = builder.clone().config("enable-debug-command", "yes");
    Ok(with_debug.start().or_else(|_| builder.start())?)
}
