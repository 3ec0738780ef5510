//! Goal: dashboards of the folder `dashboards` are served as they are, to everyone who may read, and nothing
//! else of the machine is.
//!
//! Method: the real binary over a folder that changes while it runs. The folder itself is tested in
//! `crates/http/src/dashboard_folder.rs`.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::process::{Setup, request};

const OWN: &str = "{\"sandur\": 1,\n \"title\": \"Shop\"}\n";

fn check(store: &str, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(["serve", "--check-config", "--store", store, "--dashboards"]).arg(folder);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn dashboards_of_a_folder_are_served_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let dashboards = folder.path().join("dashboards");
    let setup = Setup::new(&store, folder.path()).with(&["--dashboards", dashboards.to_str().unwrap()]);

    // Without the folder there is no start.
    let refused = setup.try_start().err().unwrap();
    assert!(refused.contains("--dashboards") && refused.contains("create it"), "{refused}");
    let checked = check(&store, &dashboards);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");

    let put = |name: &str, text: &str| {
        let path = dashboards.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("shop.json", OWN);
    put("team a/disk 50%.json", r#"{"title": "Disk", "panels": []}"#);
    put("cut.json", &OWN[..15]);
    std::fs::write(folder.path().join("outside.json"), OWN).unwrap();
    let checked = check(&store, &dashboards);
    let text = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && text.contains("warning: dashboards: 'cut': it is cut off"), "{text}");

    let server = setup.start();
    let list = || server.get_json("/sandur/dashboards");
    let named = |list: &Value, name: &str| {
        let all = list["dashboards"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).cloned().unwrap_or(Value::Null)
    };
    let found = list();
    assert_eq!((&found["configured"], &found["notes"]), (&json!(true), &json!([])));
    let shop = named(&found, "shop");
    let shown = (&shop["title"], &shop["kind"], &shop["bytes"]);
    assert_eq!(shown, (&json!("Shop"), &json!("sandur"), &json!(OWN.len())));
    assert!(shop["modified_ms"].as_i64().unwrap() > 1_600_000_000_000);
    assert_eq!(named(&found, "team a/disk 50%")["kind"], "grafana");
    assert!(named(&found, "cut")["error"].as_str().unwrap().contains("cut off"), "{found}");
    assert_eq!(server.get("/sandur/dashboards/shop"), (200, OWN.as_bytes().to_vec()));
    assert_eq!(server.get("/sandur/dashboards/team%20a/disk%2050%25").0, 200);
    assert_eq!(server.get("/sandur/dashboards/team%20a%2Fdisk%2050%25").0, 200);

    // Any tenant has the same.
    for tenant in ["team-a", "x"] {
        let headers = [("X-Scope-OrgID", tenant)];
        let answer = request(server.address, "GET", "/sandur/dashboards/shop", &headers, b"").unwrap();
        assert_eq!(answer, (200, OWN.as_bytes().to_vec()), "{tenant}");
    }
    for (path, status, text) in [
        ("cut", 422, "cut off"),
        ("none", 404, "no dashboard 'none'"),
        ("../outside", 400, "no name of a dashboard"),
        ("%2e%2e/outside", 400, "no name of a dashboard"),
        ("..%2foutside", 400, "no name of a dashboard"),
        ("%2fetc%2fpasswd", 400, "no name of a dashboard"),
        ("/etc/passwd", 400, "no name of a dashboard"),
    ] {
        let (found, body) = server.get(&format!("/sandur/dashboards/{path}"));
        let body = String::from_utf8(body).unwrap();
        assert!(found == status && body.contains(text), "{path}: {found} {body}");
    }

    // Changes are seen without a restart; a folder that disappears is said.
    put("shop.json", &OWN.replace("Shop", "Mall"));
    std::fs::remove_file(dashboards.join("cut.json")).unwrap();
    let found = list();
    assert_eq!((&named(&found, "shop")["title"], &named(&found, "cut")), (&json!("Mall"), &Value::Null));
    std::fs::rename(&dashboards, folder.path().join("away")).unwrap();
    for path in ["/sandur/dashboards", "/sandur/dashboards/shop"] {
        let (status, body) = server.get(path);
        let body = String::from_utf8(body).unwrap();
        assert!(status == 503 && body.contains("cannot be read"), "{path}: {status} {body}");
    }
    std::fs::rename(folder.path().join("away"), &dashboards).unwrap();
    assert_eq!(server.get("/sandur/dashboards/shop").0, 200);
    server.kill();

    // A server without a folder says so.
    let server = Setup::new(&store, folder.path()).start();
    let empty = json!({"dashboards": [], "configured": false, "notes": []});
    assert_eq!(server.get_json("/sandur/dashboards"), empty);
    let (status, body) = server.get("/sandur/dashboards/shop");
    assert!(status == 404 && String::from_utf8(body).unwrap().contains("--dashboards FOLDER"), "{status}");
}
