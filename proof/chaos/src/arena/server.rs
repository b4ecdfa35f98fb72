//! The server of a run.

use std::fs;
use std::path::Path;

use anyhow::Result;
use baton_server::PrivateServer;

use super::servers::fsync;
use super::{Settings, clock};

/// Starts a server that keeps its data and whose clock can jump. The trap ignores SIGXFSZ, which would
/// kill the server when its disk is full.
pub(super) fn start(settings: &Settings, folder: &Path, time: &Path) -> Result<PrivateServer> {
    let mut words = String::new();
    let library = settings.faketime.as_ref();
    if let Some(library) = library.filter(|_| settings.server_faketime) {
        fs::write(time, "+0")?;
        for (name, value) in clock::variables(library, time) {
            words.push_str(&format!("{name}='{value}' "));
        }
    }
    let script = folder.join("server");
    let text = format!(
        "#!/bin/sh\ntrap '' XFSZ\nexec env {words}'{}' \"$@\"\n",
        settings.server_program.display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    // A small file is soon read again after a restart, and now and then a fault meets a rewrite.
    let builder = PrivateServer::builder()
        .appendonly(fsync(settings))
        .config("auto-aof-rewrite-min-size", "2mb")
        .program(script);
    // Servers before 7.0 always have DEBUG, and do not know the setting.
    let with_debug = builder.clone().config("enable-debug-command", "yes");
    Ok(with_debug.start().or_else(|_| builder.start())?)
}
