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
        "assets/chunk-4BRN5MUM.js",
        "text/javascript; charset=utf-8",
        "W/\"0bbfe4bbd57cc10d\"",
        include_bytes!("../../../../web/dist/assets/chunk-4BRN5MUM.js"),
    ),
    file(
        "assets/chunk-A3TMR3IL.js",
        "text/javascript; charset=utf-8",
        "W/\"90e350b19bedd989\"",
        include_bytes!("../../../../web/dist/assets/chunk-A3TMR3IL.js"),
    ),
    file(
        "assets/chunk-AWRPI6O5.js",
        "text/javascript; charset=utf-8",
        "W/\"fa1e97112c38f2ba\"",
        include_bytes!("../../../../web/dist/assets/chunk-AWRPI6O5.js"),
    ),
    file(
        "assets/chunk-E2VZ2YZL.js",
        "text/javascript; charset=utf-8",
        "W/\"afc4e2b06bd7e769\"",
        include_bytes!("../../../../web/dist/assets/chunk-E2VZ2YZL.js"),
    ),
    file(
        "assets/chunk-GFIKK7UE.js",
        "text/javascript; charset=utf-8",
        "W/\"b420c30ad1ff15a8\"",
        include_bytes!("../../../../web/dist/assets/chunk-GFIKK7UE.js"),
    ),
    file(
        "assets/chunk-LIVPNDIY.js",
        "text/javascript; charset=utf-8",
        "W/\"0b4951dd76f05c7b\"",
        include_bytes!("../../../../web/dist/assets/chunk-LIVPNDIY.js"),
    ),
    file(
        "assets/chunk-M72VQ5EZ.js",
        "text/javascript; charset=utf-8",
        "W/\"6e5f7cd0b89938e7\"",
        include_bytes!("../../../../web/dist/assets/chunk-M72VQ5EZ.js"),
    ),
    file(
        "assets/chunk-PFZUBF72.js",
        "text/javascript; charset=utf-8",
        "W/\"a89c06edef988843\"",
        include_bytes!("../../../../web/dist/assets/chunk-PFZUBF72.js"),
    ),
    file(
        "assets/chunk-S2JCUHWM.js",
        "text/javascript; charset=utf-8",
        "W/\"e8284f9f96a7f120\"",
        include_bytes!("../../../../web/dist/assets/chunk-S2JCUHWM.js"),
    ),
    file(
        "assets/main-FGAB2O3Y.css",
        "text/css; charset=utf-8",
        "W/\"6cf8f26100ee9c0c\"",
        include_bytes!("../../../../web/dist/assets/main-FGAB2O3Y.css"),
    ),
    file(
        "assets/main-K4TXDTH6.js",
        "text/javascript; charset=utf-8",
        "W/\"b7550e611e7d11eb\"",
        include_bytes!("../../../../web/dist/assets/main-K4TXDTH6.js"),
    ),
    file(
        "assets/page-A5A5ZZE2.js",
        "text/javascript; charset=utf-8",
        "W/\"be9644d8ea90236a\"",
        include_bytes!("../../../../web/dist/assets/page-A5A5ZZE2.js"),
    ),
    file(
        "assets/page-BO6C6JUE.js",
        "text/javascript; charset=utf-8",
        "W/\"f1cd2f77f07c4cb6\"",
        include_bytes!("../../../../web/dist/assets/page-BO6C6JUE.js"),
    ),
    file(
        "assets/page-M6Q6XKF2.js",
        "text/javascript; charset=utf-8",
        "W/\"8395cacf8bdba888\"",
        include_bytes!("../../../../web/dist/assets/page-M6Q6XKF2.js"),
    ),
    file(
        "assets/page-UO3X3Y6T.js",
        "text/javascript; charset=utf-8",
        "W/\"b4b79c26c8d62c05\"",
        include_bytes!("../../../../web/dist/assets/page-UO3X3Y6T.js"),
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
        "W/\"8fd22c53ee16dba0\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
