//! Goal: groups of alerts arrive as e-mails, encrypted and once, and no label becomes a header or a command.
//!
//! Method: the real binary, and SMTP servers in this test that fail first, offer no encryption, or send
//! without an end.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use super::reaching_a_server::Authority;
use super::rules::{silent, soon};
use crate::process::{Server, Setup};

/// What a server got: the commands of a connection, and the e-mail.
#[derive(Clone, Debug, Default)]
struct Session {
    commands: Vec<String>,
    mail: String,
    is_encrypted: bool,
}

type Sessions = Arc<Mutex<Vec<Session>>>;

/// How a server behaves.
#[derive(Clone)]
struct Behaviour {
    tls: Option<Arc<ServerConfig>>,
    /// Whether TLS begins with the first byte.
    is_wrapped: bool,
    /// How many sessions fail.
    failures: usize,
}

fn server(behaviour: Behaviour) -> (SocketAddr, Sessions) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, sessions) = (listener.local_addr().unwrap(), Sessions::default());
    let kept = Arc::clone(&sessions);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            let mut session = Session::default();
            talk(stream, &behaviour, number < behaviour.failures, &mut session);
            kept.lock().unwrap().push(session);
        }
    });
    (address, sessions)
}

/// Speaks SMTP with one client.
fn talk(mut stream: TcpStream, behaviour: &Behaviour, fails: bool, session: &mut Session) {
    let encrypted = |stream: TcpStream| {
        let connection = ServerConnection::new(behaviour.tls.clone().unwrap()).unwrap();
        StreamOwned::new(connection, stream)
    };
    if behaviour.is_wrapped {
        session.is_encrypted = true;
        let mut stream = encrypted(stream);
        let _ = stream.write_all(b"220 test\r\n");
        commands(&mut stream, "", fails, session);
        return;
    }
    let _ = stream.write_all(b"220 test\r\n");
    let offer = if behaviour.tls.is_some() { "250-STARTTLS\r\n" } else { "" };
    if commands(&mut stream, offer, fails, session) {
        session.is_encrypted = true;
        commands(&mut encrypted(stream), "", fails, session);
    }
}

/// Answers commands. Returns true when encryption is to begin.
fn commands(stream: &mut (impl Read + Write), offer: &str, fails: bool, session: &mut Session) -> bool {
    while let Some(line) = line(stream) {
        session.commands.push(line.clone());
        let verb = line.split(' ').next().unwrap().to_uppercase();
        let reply = match verb.as_str() {
            "EHLO" => format!("250-test\r\n{offer}250 AUTH PLAIN\r\n"),
            "STARTTLS" => "220 go on\r\n".to_owned(),
            "MAIL" if fails => "451 try again later\r\n".to_owned(),
            "DATA" => "354 go on\r\n".to_owned(),
            _ => "250 2.0.0 done\r\n".to_owned(),
        };
        let reply = if verb == "AUTH" { "235 welcome\r\n".to_owned() } else { reply };
        if stream.write_all(reply.as_bytes()).is_err() {
            return false;
        }
        match verb.as_str() {
            "STARTTLS" => return true,
            "QUIT" => return false,
            "DATA" => {
                while let Some(text) = self::line(stream).filter(|text| text != ".") {
                    session.mail.push_str(&text);
                    session.mail.push('\n');
                }
                let _ = stream.write_all(b"250 2.0.0 kept\r\n");
            }
            _ => {}
        }
    }
    false
}

/// A line without its end.
fn line(stream: &mut impl Read) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    loop {
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
        if bytes.ends_with(b"\r\n") {
            bytes.truncate(bytes.len() - 2);
            return Some(String::from_utf8(bytes).unwrap());
        }
    }
}

const RULES: &str = r#"
groups:
- name: g
  interval: 1s
  rules:
  - alert: Burns
    expr: 'label_replace(vector(1), "where", "x", "", "")'
    labels: {hostile: "a\r\nBcc: all@example.org\r\n.\r\nQUIT\r\n"}
    annotations: {summary: "é is hot\n.\nRCPT TO:<x@y.z>"}
"#;

fn start(folder: &Path, smarthost: SocketAddr, arguments: &[&str]) -> Server {
    let store = format!("file://{}", folder.join("data").display());
    std::fs::write(folder.join("rules.yml"), RULES).unwrap();
    let rules = folder.join("rules.yml").display().to_string();
    let smarthost = smarthost.to_string();
    let common = [
        "--rules",
        &rules,
        "--memory-limit",
        "192MiB",
        "--notify-group-wait",
        "1s",
        "--notify-email-from",
        "Sandur <alerts@example.org>",
        "--notify-email-to",
        "Ops <ops@example.org>",
        "--notify-email-smarthost",
        &smarthost,
    ];
    Setup::new(store, folder).with(&[&common, arguments].concat()).start()
}

fn last_error(server: &Server) -> Option<String> {
    let receivers = server.get_json("/api/v1/alertmanagers")["data"]["receivers"].clone();
    let receiver = receivers.as_array()?.iter().find(|receiver| receiver["kind"] == "email")?.clone();
    match &receiver["lastError"] {
        Value::String(error) => Some(error.clone()),
        _ => None,
    }
}

/// The headers of an e-mail, each in one line.
fn headers(mail: &str) -> Vec<String> {
    let head = mail.split("\n\n").next().unwrap().replace("\n ", " ");
    head.lines().map(str::to_owned).collect()
}

#[test]
fn emails_arrive_encrypted_and_labels_do_not_become_headers() {
    for is_wrapped in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("Test CA");
        let tls = Some(authority.server_config("127.0.0.1"));
        let (address, sessions) = server(Behaviour { tls, is_wrapped, failures: 1 });
        let (ca, password) = (folder.path().join("ca.pem"), folder.path().join("password"));
        std::fs::write(&ca, &authority.pem).unwrap();
        std::fs::write(&password, "hidden-word\n").unwrap();
        let arguments = [
            "--notify-email-tls",
            if is_wrapped { "tls" } else { "starttls" },
            "--notify-email-ca-file",
            ca.to_str().unwrap(),
            "--notify-email-user",
            "sandur",
            "--notify-email-password-file",
            password.to_str().unwrap(),
        ];
        let server = start(folder.path(), address, &arguments);
        // The first attempt fails.
        soon(&server, "the e-mail", || (sessions.lock().unwrap().len() >= 2).then_some(()));
        let sessions = sessions.lock().unwrap().clone();
        let Session { commands, mail, is_encrypted } = &sessions[1];
        assert!(*is_encrypted, "{commands:?}");
        let verbs: Vec<&str> = commands.iter().map(|line| line.split(' ').next().unwrap()).collect();
        let expected: &[&str] = match is_wrapped {
            true => &["EHLO", "AUTH", "MAIL", "RCPT", "DATA", "QUIT"],
            false => &["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "QUIT"],
        };
        assert_eq!(verbs, expected);
        assert!(commands.contains(&"RCPT TO:<ops@example.org>".to_owned()), "{commands:?}");
        let names: Vec<String> =
            headers(mail).iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        let expected = [
            "From",
            "To",
            "Date",
            "Message-ID",
            "Subject",
            "Content-Type",
            "MIME-Version",
            "Content-Transfer-Encoding",
        ];
        let mut sorted = (names.clone(), expected.map(str::to_owned).to_vec());
        sorted.0.sort();
        sorted.1.sort();
        assert_eq!(sorted.0, sorted.1, "{mail}");
        let subject = headers(mail).into_iter().find(|line| line.starts_with("Subject: ")).unwrap();
        assert!(subject.starts_with("Subject: [FIRING:1] Burns"), "{subject}");
        assert_eq!(last_error(&server), None);
        assert!(!server.log_text().contains("hidden-word"));
        assert_eq!(server.terminate(), Some(0));
    }
}

#[test]
fn servers_that_do_not_encrypt_that_others_pretend_to_be_or_that_send_for_ever_get_no_email() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Test CA");
    let plain = server(Behaviour { tls: None, is_wrapped: false, failures: 0 });
    let tls = Some(Authority::new("Other CA").server_config("127.0.0.1"));
    let other = server(Behaviour { tls, is_wrapped: false, failures: 0 });
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, &authority.pem).unwrap();
    for (number, ((address, sessions), expected)) in
        [(plain, "STARTTLS is not supported"), (other, "ertificate")].into_iter().enumerate()
    {
        let folder = folder.path().join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        let server = start(&folder, address, &["--notify-email-ca-file", ca.to_str().unwrap()]);
        let error = soon(&server, "the error", || last_error(&server));
        assert!(error.contains(expected), "{error}");
        assert!(sessions.lock().unwrap().iter().all(|session| session.mail.is_empty()));
        assert_eq!(server.terminate(), Some(0));
    }

    let endless = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = endless.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in endless.incoming() {
            let Ok(mut stream) = stream else { return };
            while stream.write_all(&[b'2'; 65_536]).is_ok() {}
        }
    });
    let folder = folder.path().join("endless");
    std::fs::create_dir(&folder).unwrap();
    let server = start(&folder, address, &["--notify-email-tls", "none"]);
    let error = soon(&server, "the error", || last_error(&server));
    assert!(error.contains("the server sent more than 1048576 bytes"), "{error}");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_mail_server_that_never_answers_delays_no_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let (address, _held) = silent();
    let (hook, requests) = super::notifications::accepting_webhook();
    let url = format!("http://{hook}/");
    let arguments = ["--notify-email-tls", "none", "--notify-webhook", &url];
    let server = start(folder.path(), address, &arguments);
    soon(&server, "the webhook", || (!requests.lock().unwrap().is_empty()).then_some(()));
    let error = soon(&server, "the error of the mail server", || last_error(&server));
    assert!(error.contains("no answer within 10s"), "{error}");
    assert_eq!(server.terminate(), Some(0));
}
