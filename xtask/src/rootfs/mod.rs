//! `cargo xtask rootfs [--program FILE]`: starts what the image contains, without podman or docker.
//!
//! It assembles the root file system of the image with `packaging/rootfs.sh`, mounts it read-only in a
//! mount namespace of its own, with a writable `/data`, and starts the command of the Containerfile in it
//! by `chroot` as user 65532. The server must be ready, refuse a push without a token, store one with a
//! token and find it after a restart; a store beside `/data` must be refused, because nothing else can be
//! written. Then the command of the systemd unit is started in it ([`unit`]). This needs root, `unshare` and
//! `chroot`; the command says so if they are missing.

#![allow(clippy::disallowed_methods)] // it waits for another program, outside the product

mod image;
mod unit;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::http;
use crate::process::root;
use image::{Image, PATIENCE, USER, now_ns};

/// Runs the test.
pub fn run(arguments: &[String]) -> Result<()> {
    let program = match arguments {
        [] => root().join("target/demo/sandur"),
        [name, program] if name == "--program" => PathBuf::from(program),
        _ => bail!("usage: cargo xtask rootfs [--program FILE]"),
    };
    let allowed = Command::new("unshare").args(["--mount", "--", "chroot", "/", "/bin/true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: the image is not started: this needs root with `unshare --mount` and `chroot`");
        return Ok(());
    }
    let image = Image::assemble(&program)?;
    let token = image.add_credentials()?;
    let line = format!("written at {}", now_ns());
    let mut server = image.start()?;
    let push = serde_json::json!({"streams": [{"stream": {"app": "image"},
        "values": [[now_ns().to_string(), line]]}]});
    let push = push.to_string();
    for (header, wanted) in [("", 401), (token.as_str(), 204)] {
        let status = push_with(server.address, header, push.as_bytes())?;
        if status != wanted {
            bail!("a push got {status} instead of {wanted}: {}", image.log());
        }
    }
    image.find(server.address, &token, &line)?;
    server.terminate()?;
    println!("the command of the image starts as {USER} on a read-only root, and takes a push with a token");
    let mut server = image.start()?;
    image.find(server.address, &token, &line)?;
    server.terminate()?;
    println!("after SIGTERM and a start the line is found");
    image.refuses_other_directories()?;
    unit::run(&image)
}

fn push_with(server: SocketAddr, token: &str, body: &[u8]) -> Result<u16> {
    let bearer = format!("Bearer {token}");
    let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("Authorization", &bearer)] };
    let body = ("application/json", body);
    Ok(http::post_with(server, "/loki/api/v1/push", headers, body, PATIENCE)?.status)
}
