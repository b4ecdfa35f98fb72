//! One page in the browser.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::devtools::Browser;
use crate::support::TIMEOUT;

/// The pause between two checks of a page.
const POLL: Duration = Duration::from_millis(10);

/// One page, which shares neither cookies nor anything else with others. It is closed when this
/// is dropped.
pub(crate) struct Tab {
    browser: Arc<Browser>,
    context: String,
    session: String,
}

impl Tab {
    /// Opens an address and waits until it has loaded.
    #[track_caller]
    pub(crate) fn open(browser: &Arc<Browser>, url: &str) -> Self {
        let context = browser.call(None, "Target.createBrowserContext", json!({}));
        let context = word(&context["browserContextId"]);
        let page = json!({
            "url": "about:blank", "browserContextId": context, "newWindow": true,
            "width": 1280, "height": 900,
        });
        let target = browser.call(None, "Target.createTarget", page)["targetId"].take();
        let attach = json!({"targetId": target, "flatten": true});
        let session = browser.call(None, "Target.attachToTarget", attach);
        let tab = Self {
            browser: Arc::clone(browser),
            context,
            session: word(&session["sessionId"]),
        };
        for domain in ["Runtime", "Log", "Page"] {
            tab.call(&format!("{domain}.enable"), json!({}));
        }
        // Else only one page of the whole browser would have the focus.
        tab.call(
            "Emulation.setFocusEmulationEnabled",
            json!({"enabled": true}),
        );
        tab.go(url);
        tab
    }

    /// Goes to another address and waits until it has loaded.
    #[track_caller]
    pub(crate) fn go(&self, url: &str) {
        self.eval("window.left = true");
        let went = self.call("Page.navigate", json!({"url": url}));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        self.wait_loaded();
    }

    /// Waits until the page that was marked as left is gone and the next one has loaded.
    #[track_caller]
    pub(crate) fn wait_loaded(&self) {
        self.wait_until(
            "the page to load",
            "!window.left && document.readyState === 'complete'",
        );
    }

    #[track_caller]
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// What an expression is worth; a promise is waited for.
    #[track_caller]
    pub(crate) fn eval(&self, expression: &str) -> Value {
        match self.try_eval(expression) {
            Ok(value) => value,
            Err(why) => panic!("{expression}: {why}"),
        }
    }

    #[track_caller]
    fn try_eval(&self, expression: &str) -> Result<Value, Value> {
        let question = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
            "userGesture": true,
        });
        let session = Some(self.session.as_str());
        let mut answer = self
            .browser
            .try_call(session, "Runtime.evaluate", question)?;
        match answer["exceptionDetails"].take() {
            Value::Null => Ok(answer["result"]["value"].take()),
            thrown => Err(thrown),
        }
    }

    /// The text of the first element that fits; empty if there is none.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let selector = Value::from(selector);
        word(&self.eval(&format!(
            "document.querySelector({selector})?.textContent.trim() ?? ''"
        )))
    }

    /// Waits until an expression is true, and returns when that was seen.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, expression: &str) -> Instant {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // What is thrown while a page goes away is no reason to give up.
            let last = self.try_eval(expression);
            if last == Ok(Value::Bool(true)) {
                return Instant::now();
            }
            if Instant::now() > deadline {
                let page = self.try_eval("document.body.innerText");
                panic!(
                    "waited in vain for {what}: {last:?} {:?} {page:?}",
                    self.errors()
                );
            }
            thread::sleep(POLL);
        }
    }

    /// Clicks on the first element that fits, as soon as there is one that can be seen.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        let named = Value::from(selector);
        self.wait_until(
            &format!("{selector} to click on"),
            &format!(
                "(() => {{
                    const found = document.querySelector({named});
                    if (!found?.checkVisibility({{visibilityProperty: true}}) || found.disabled)
                        return false;
                    found.click();
                    return true;
                }})()"
            ),
        );
    }

    /// Presses and releases a key.
    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        let (code, text) = match key {
            "Backspace" => (8, ""),
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            _ => panic!("no such key here: {key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
            });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types into whatever has the focus.
    #[track_caller]
    pub(crate) fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// What the console shows in red: uncaught exceptions, logged errors, what was refused by
    /// the page's policy, what did not load.
    pub(crate) fn errors(&self) -> Vec<String> {
        let events = self.browser.events(&self.session);
        events.iter().filter_map(error).collect()
    }

    /// Tells the page which colours its viewer prefers: `light` or `dark`.
    #[track_caller]
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Gives the page a size, and makes it one of a phone or of a desk.
    #[track_caller]
    pub(crate) fn resize(&self, width: u32, height: u32, phone: bool) {
        let scale = if phone { 2 } else { 1 };
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Lets the page save files, to this folder.
    #[track_caller]
    pub(crate) fn save_to(&self, folder: &Path) {
        let how = json!({
            "behavior": "allow", "browserContextId": self.context, "downloadPath": folder,
        });
        self.browser.call(None, "Browser.setDownloadBehavior", how);
    }

    /// Lets the browser cancel whatever the page wants to save.
    #[track_caller]
    pub(crate) fn save_nothing(&self) {
        let how = json!({ "behavior": "deny", "browserContextId": self.context });
        self.browser.call(None, "Browser.setDownloadBehavior", how);
    }

    /// Writes a picture of what is seen to a file.
    #[track_caller]
    pub(crate) fn screenshot(&self, file: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        std::fs::write(file, from_base64(shot["data"].as_str().unwrap())).unwrap();
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let context = json!({"browserContextId": self.context});
        self.browser
            .send(None, "Target.disposeBrowserContext", context);
    }
}

#[track_caller]
fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The error that an event tells of, if it does.
fn error(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            Some(params["entry"].to_string())
        }
        _ => None,
    }
}

/// Pictures come so; anything else in the text is a defect of the browser.
#[track_caller]
fn from_base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len()), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => panic!("not base64: {digit}"),
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}
