//! The files of the explorer: path below `/explore/`, content type, entity tag, content.
//!
//! Written by `cargo xtask web build` from `web/`; do not edit.

use super::file::{File, file};

/// Every file, sorted by path.
#[rustfmt::skip]
pub static FILES: [File; 28] = [
    file(
        "assets/add_panel-5Z7ENJHA.js",
        "text/javascript; charset=utf-8",
        "W/\"6186b4cf96b82dbc\"",
        include_bytes!("../../../../web/dist/assets/add_panel-5Z7ENJHA.js"),
    ),
    file(
        "assets/chart-FYW3ADGL.js",
        "text/javascript; charset=utf-8",
        "W/\"5d7c17fa3e6531c1\"",
        include_bytes!("../../../../web/dist/assets/chart-FYW3ADGL.js"),
    ),
    file(
        "assets/chunk-2BX3ZWY4.js",
        "text/javascript; charset=utf-8",
        "W/\"3346469741a60d02\"",
        include_bytes!("../../../../web/dist/assets/chunk-2BX3ZWY4.js"),
    ),
    file(
        "assets/chunk-4EGOE6C5.js",
        "text/javascript; charset=utf-8",
        "W/\"5a9c6f75f667cfd6\"",
        include_bytes!("../../../../web/dist/assets/chunk-4EGOE6C5.js"),
    ),
    file(
        "assets/chunk-56RLCD4E.js",
        "text/javascript; charset=utf-8",
        "W/\"83b6af5814ff3d6b\"",
        include_bytes!("../../../../web/dist/assets/chunk-56RLCD4E.js"),
    ),
    file(
        "assets/chunk-AWBFYK46.js",
        "text/javascript; charset=utf-8",
        "W/\"2202065164bce4da\"",
        include_bytes!("../../../../web/dist/assets/chunk-AWBFYK46.js"),
    ),
    file(
        "assets/chunk-E2VZ2YZL.js",
        "text/javascript; charset=utf-8",
        "W/\"afc4e2b06bd7e769\"",
        include_bytes!("../../../../web/dist/assets/chunk-E2VZ2YZL.js"),
    ),
    file(
        "assets/chunk-FOW7LNDW.js",
        "text/javascript; charset=utf-8",
        "W/\"e79f5cf96c045012\"",
        include_bytes!("../../../../web/dist/assets/chunk-FOW7LNDW.js"),
    ),
    file(
        "assets/chunk-I6BBHISS.js",
        "text/javascript; charset=utf-8",
        "W/\"bcba857cfdeb618f\"",
        include_bytes!("../../../../web/dist/assets/chunk-I6BBHISS.js"),
    ),
    file(
        "assets/chunk-IOVFATHQ.js",
        "text/javascript; charset=utf-8",
        "W/\"13cdae906d55b1d9\"",
        include_bytes!("../../../../web/dist/assets/chunk-IOVFATHQ.js"),
    ),
    file(
        "assets/chunk-KXNJPFXT.js",
        "text/javascript; charset=utf-8",
        "W/\"d88080cf26f04e1f\"",
        include_bytes!("../../../../web/dist/assets/chunk-KXNJPFXT.js"),
    ),
    file(
        "assets/chunk-MQEZWKSY.js",
        "text/javascript; charset=utf-8",
        "W/\"ed802d0130cf958d\"",
        include_bytes!("../../../../web/dist/assets/chunk-MQEZWKSY.js"),
    ),
    file(
        "assets/chunk-OGZFYUBG.js",
        "text/javascript; charset=utf-8",
        "W/\"2b903a60818c6968\"",
        include_bytes!("../../../../web/dist/assets/chunk-OGZFYUBG.js"),
    ),
    file(
        "assets/chunk-VIFOGNNA.js",
        "text/javascript; charset=utf-8",
        "W/\"e6abda632840724d\"",
        include_bytes!("../../../../web/dist/assets/chunk-VIFOGNNA.js"),
    ),
    file(
        "assets/chunk-VOXXFNAY.js",
        "text/javascript; charset=utf-8",
        "W/\"3873e38e5f56b43e\"",
        include_bytes!("../../../../web/dist/assets/chunk-VOXXFNAY.js"),
    ),
    file(
        "assets/chunk-X6ILQ4ZE.js",
        "text/javascript; charset=utf-8",
        "W/\"051ed8d5a104a09d\"",
        include_bytes!("../../../../web/dist/assets/chunk-X6ILQ4ZE.js"),
    ),
    file(
        "assets/main-7W3RRUEK.css",
        "text/css; charset=utf-8",
        "W/\"9c32e77fe6d1d29e\"",
        include_bytes!("../../../../web/dist/assets/main-7W3RRUEK.css"),
    ),
    file(
        "assets/main-ZME3N6ZX.js",
        "text/javascript; charset=utf-8",
        "W/\"7c6a44182e9b74f2\"",
        include_bytes!("../../../../web/dist/assets/main-ZME3N6ZX.js"),
    ),
    file(
        "assets/page-5VHE6B5Q.js",
        "text/javascript; charset=utf-8",
        "W/\"b0d6095ab63f0115\"",
        include_bytes!("../../../../web/dist/assets/page-5VHE6B5Q.js"),
    ),
    file(
        "assets/page-CEM5LXQC.js",
        "text/javascript; charset=utf-8",
        "W/\"a92116cbc7974814\"",
        include_bytes!("../../../../web/dist/assets/page-CEM5LXQC.js"),
    ),
    file(
        "assets/page-H4EWPLIL.js",
        "text/javascript; charset=utf-8",
        "W/\"23275828e128de01\"",
        include_bytes!("../../../../web/dist/assets/page-H4EWPLIL.js"),
    ),
    file(
        "assets/page-K4U3XPE6.js",
        "text/javascript; charset=utf-8",
        "W/\"ede69ec07a1811a0\"",
        include_bytes!("../../../../web/dist/assets/page-K4U3XPE6.js"),
    ),
    file(
        "assets/page-LM4CVLRD.js",
        "text/javascript; charset=utf-8",
        "W/\"7d10657f5d502a79\"",
        include_bytes!("../../../../web/dist/assets/page-LM4CVLRD.js"),
    ),
    file(
        "assets/page-VBAYONRI.js",
        "text/javascript; charset=utf-8",
        "W/\"b569636ccacbf9d8\"",
        include_bytes!("../../../../web/dist/assets/page-VBAYONRI.js"),
    ),
    file(
        "assets/theme-DMKARAT2.js",
        "text/javascript; charset=utf-8",
        "W/\"62bb35a386aa95f0\"",
        include_bytes!("../../../../web/dist/assets/theme-DMKARAT2.js"),
    ),
    file(
        "icon.svg",
        "image/svg+xml",
        "W/\"56cc9489f76b45ed\"",
        include_bytes!("../../../../web/dist/icon.svg"),
    ),
    file(
        "index.html",
        "text/html; charset=utf-8",
        "W/\"7a5d08501a34909e\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
