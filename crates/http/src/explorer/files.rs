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
        "assets/chunk-E2VZ2YZL.js",
        "text/javascript; charset=utf-8",
        "W/\"afc4e2b06bd7e769\"",
        include_bytes!("../../../../web/dist/assets/chunk-E2VZ2YZL.js"),
    ),
    file(
        "assets/chunk-ERH4DAYF.js",
        "text/javascript; charset=utf-8",
        "W/\"3b44310b73b68a00\"",
        include_bytes!("../../../../web/dist/assets/chunk-ERH4DAYF.js"),
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
        "assets/chunk-VWNEIHVD.js",
        "text/javascript; charset=utf-8",
        "W/\"cf305fac7da36695\"",
        include_bytes!("../../../../web/dist/assets/chunk-VWNEIHVD.js"),
    ),
    file(
        "assets/chunk-X4VQAZAX.js",
        "text/javascript; charset=utf-8",
        "W/\"62918d29997664f5\"",
        include_bytes!("../../../../web/dist/assets/chunk-X4VQAZAX.js"),
    ),
    file(
        "assets/main-AIKCWD47.js",
        "text/javascript; charset=utf-8",
        "W/\"2a43cca9b7578a6d\"",
        include_bytes!("../../../../web/dist/assets/main-AIKCWD47.js"),
    ),
    file(
        "assets/main-ZYIKJ62T.css",
        "text/css; charset=utf-8",
        "W/\"e39379fcc66040be\"",
        include_bytes!("../../../../web/dist/assets/main-ZYIKJ62T.css"),
    ),
    file(
        "assets/page-EUOKP62P.js",
        "text/javascript; charset=utf-8",
        "W/\"f66306fee834f7c5\"",
        include_bytes!("../../../../web/dist/assets/page-EUOKP62P.js"),
    ),
    file(
        "assets/page-IRSRM5YD.js",
        "text/javascript; charset=utf-8",
        "W/\"b99067caf9fde75b\"",
        include_bytes!("../../../../web/dist/assets/page-IRSRM5YD.js"),
    ),
    file(
        "assets/page-O2XOZIXP.js",
        "text/javascript; charset=utf-8",
        "W/\"a881a6706a4521c5\"",
        include_bytes!("../../../../web/dist/assets/page-O2XOZIXP.js"),
    ),
    file(
        "assets/page-WQCJD4M2.js",
        "text/javascript; charset=utf-8",
        "W/\"cf045da3023c044a\"",
        include_bytes!("../../../../web/dist/assets/page-WQCJD4M2.js"),
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
        "W/\"4f525e818f0a4c5c\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
