//! The files of the explorer: path below `/explore/`, content type, entity tag, content.
//!
//! Written by `cargo xtask web build` from `web/`; do not edit.

use super::file::{File, file};

/// Every file, sorted by path.
#[rustfmt::skip]
pub static FILES: [File; 22] = [
    file(
        "assets/chart-WLJKHMB5.js",
        "text/javascript; charset=utf-8",
        "W/\"1537c9c2f47b3f54\"",
        include_bytes!("../../../../web/dist/assets/chart-WLJKHMB5.js"),
    ),
    file(
        "assets/chunk-2BX3ZWY4.js",
        "text/javascript; charset=utf-8",
        "W/\"3346469741a60d02\"",
        include_bytes!("../../../../web/dist/assets/chunk-2BX3ZWY4.js"),
    ),
    file(
        "assets/chunk-3N7V7OLU.js",
        "text/javascript; charset=utf-8",
        "W/\"f933986ee2fae484\"",
        include_bytes!("../../../../web/dist/assets/chunk-3N7V7OLU.js"),
    ),
    file(
        "assets/chunk-E2VZ2YZL.js",
        "text/javascript; charset=utf-8",
        "W/\"afc4e2b06bd7e769\"",
        include_bytes!("../../../../web/dist/assets/chunk-E2VZ2YZL.js"),
    ),
    file(
        "assets/chunk-FDETCIP7.js",
        "text/javascript; charset=utf-8",
        "W/\"13dade6c92d906cd\"",
        include_bytes!("../../../../web/dist/assets/chunk-FDETCIP7.js"),
    ),
    file(
        "assets/chunk-FZH3ITZH.js",
        "text/javascript; charset=utf-8",
        "W/\"72f182c1d1070760\"",
        include_bytes!("../../../../web/dist/assets/chunk-FZH3ITZH.js"),
    ),
    file(
        "assets/chunk-GFIKK7UE.js",
        "text/javascript; charset=utf-8",
        "W/\"b420c30ad1ff15a8\"",
        include_bytes!("../../../../web/dist/assets/chunk-GFIKK7UE.js"),
    ),
    file(
        "assets/chunk-IKSTUB3I.js",
        "text/javascript; charset=utf-8",
        "W/\"a04215b32cc4a2ed\"",
        include_bytes!("../../../../web/dist/assets/chunk-IKSTUB3I.js"),
    ),
    file(
        "assets/chunk-JTHNFNGH.js",
        "text/javascript; charset=utf-8",
        "W/\"9c0f8260c715a7c8\"",
        include_bytes!("../../../../web/dist/assets/chunk-JTHNFNGH.js"),
    ),
    file(
        "assets/chunk-NCVOVHFD.js",
        "text/javascript; charset=utf-8",
        "W/\"14bc874da52de7e8\"",
        include_bytes!("../../../../web/dist/assets/chunk-NCVOVHFD.js"),
    ),
    file(
        "assets/chunk-PFZUBF72.js",
        "text/javascript; charset=utf-8",
        "W/\"a89c06edef988843\"",
        include_bytes!("../../../../web/dist/assets/chunk-PFZUBF72.js"),
    ),
    file(
        "assets/chunk-SD6Q6RJN.js",
        "text/javascript; charset=utf-8",
        "W/\"74c7bb1e85b5fd10\"",
        include_bytes!("../../../../web/dist/assets/chunk-SD6Q6RJN.js"),
    ),
    file(
        "assets/main-6QXKB73H.js",
        "text/javascript; charset=utf-8",
        "W/\"10f6caa4f0c04775\"",
        include_bytes!("../../../../web/dist/assets/main-6QXKB73H.js"),
    ),
    file(
        "assets/main-FGAB2O3Y.css",
        "text/css; charset=utf-8",
        "W/\"6cf8f26100ee9c0c\"",
        include_bytes!("../../../../web/dist/assets/main-FGAB2O3Y.css"),
    ),
    file(
        "assets/page-7UNKTS7E.js",
        "text/javascript; charset=utf-8",
        "W/\"7360e4a9e165317b\"",
        include_bytes!("../../../../web/dist/assets/page-7UNKTS7E.js"),
    ),
    file(
        "assets/page-AOB2M32K.js",
        "text/javascript; charset=utf-8",
        "W/\"f0352e636bc02542\"",
        include_bytes!("../../../../web/dist/assets/page-AOB2M32K.js"),
    ),
    file(
        "assets/page-OOGORQ4F.js",
        "text/javascript; charset=utf-8",
        "W/\"7c8824d75a845ecc\"",
        include_bytes!("../../../../web/dist/assets/page-OOGORQ4F.js"),
    ),
    file(
        "assets/page-XOHJEGPJ.js",
        "text/javascript; charset=utf-8",
        "W/\"50a41586e7a19b96\"",
        include_bytes!("../../../../web/dist/assets/page-XOHJEGPJ.js"),
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
        "W/\"b6fd46e657006192\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
