//! The files of the explorer: path below `/explore/`, content type, entity tag, content.
//!
//! Written by `cargo xtask web build` from `web/`; do not edit.

use super::file::{File, file};

/// Every file, sorted by path.
#[rustfmt::skip]
pub static FILES: [File; 29] = [
    file(
        "assets/add_panel-54WK7VE4.js",
        "text/javascript; charset=utf-8",
        "W/\"03dd301d9728ac3c\"",
        include_bytes!("../../../../web/dist/assets/add_panel-54WK7VE4.js"),
    ),
    file(
        "assets/chart-U65IPCD4.js",
        "text/javascript; charset=utf-8",
        "W/\"94296f076d0c08ad\"",
        include_bytes!("../../../../web/dist/assets/chart-U65IPCD4.js"),
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
        "assets/chunk-E2VZ2YZL.js",
        "text/javascript; charset=utf-8",
        "W/\"afc4e2b06bd7e769\"",
        include_bytes!("../../../../web/dist/assets/chunk-E2VZ2YZL.js"),
    ),
    file(
        "assets/chunk-GPM5TLZC.js",
        "text/javascript; charset=utf-8",
        "W/\"dd299b1f93a9ad9a\"",
        include_bytes!("../../../../web/dist/assets/chunk-GPM5TLZC.js"),
    ),
    file(
        "assets/chunk-I6BBHISS.js",
        "text/javascript; charset=utf-8",
        "W/\"bcba857cfdeb618f\"",
        include_bytes!("../../../../web/dist/assets/chunk-I6BBHISS.js"),
    ),
    file(
        "assets/chunk-IMUIQ7UM.js",
        "text/javascript; charset=utf-8",
        "W/\"f56e967c3be0d482\"",
        include_bytes!("../../../../web/dist/assets/chunk-IMUIQ7UM.js"),
    ),
    file(
        "assets/chunk-IOVFATHQ.js",
        "text/javascript; charset=utf-8",
        "W/\"13cdae906d55b1d9\"",
        include_bytes!("../../../../web/dist/assets/chunk-IOVFATHQ.js"),
    ),
    file(
        "assets/chunk-JGUADAYB.js",
        "text/javascript; charset=utf-8",
        "W/\"41c4df18f70266b3\"",
        include_bytes!("../../../../web/dist/assets/chunk-JGUADAYB.js"),
    ),
    file(
        "assets/chunk-KCOLJE22.js",
        "text/javascript; charset=utf-8",
        "W/\"956d21b1281b9c23\"",
        include_bytes!("../../../../web/dist/assets/chunk-KCOLJE22.js"),
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
        "assets/chunk-QODRNYXE.js",
        "text/javascript; charset=utf-8",
        "W/\"85ba625ef9bee816\"",
        include_bytes!("../../../../web/dist/assets/chunk-QODRNYXE.js"),
    ),
    file(
        "assets/chunk-RK6LXMQG.js",
        "text/javascript; charset=utf-8",
        "W/\"9b8833a9dffeee7b\"",
        include_bytes!("../../../../web/dist/assets/chunk-RK6LXMQG.js"),
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
        "assets/main-3QXZRTHA.css",
        "text/css; charset=utf-8",
        "W/\"a7141e23871f0d37\"",
        include_bytes!("../../../../web/dist/assets/main-3QXZRTHA.css"),
    ),
    file(
        "assets/main-UOSD3SGK.js",
        "text/javascript; charset=utf-8",
        "W/\"7fc8b2368bbc9125\"",
        include_bytes!("../../../../web/dist/assets/main-UOSD3SGK.js"),
    ),
    file(
        "assets/page-5VHE6B5Q.js",
        "text/javascript; charset=utf-8",
        "W/\"b0d6095ab63f0115\"",
        include_bytes!("../../../../web/dist/assets/page-5VHE6B5Q.js"),
    ),
    file(
        "assets/page-6BB47LQS.js",
        "text/javascript; charset=utf-8",
        "W/\"c0cc4d4b2a5f88af\"",
        include_bytes!("../../../../web/dist/assets/page-6BB47LQS.js"),
    ),
    file(
        "assets/page-NU26D5O2.js",
        "text/javascript; charset=utf-8",
        "W/\"3d9bce543283b681\"",
        include_bytes!("../../../../web/dist/assets/page-NU26D5O2.js"),
    ),
    file(
        "assets/page-OMY2JSFC.js",
        "text/javascript; charset=utf-8",
        "W/\"42a5d546853484b6\"",
        include_bytes!("../../../../web/dist/assets/page-OMY2JSFC.js"),
    ),
    file(
        "assets/page-U2GHLHV7.js",
        "text/javascript; charset=utf-8",
        "W/\"eaba439cc154d71d\"",
        include_bytes!("../../../../web/dist/assets/page-U2GHLHV7.js"),
    ),
    file(
        "assets/page-UJEIGU4S.js",
        "text/javascript; charset=utf-8",
        "W/\"a8d2a912de3587f3\"",
        include_bytes!("../../../../web/dist/assets/page-UJEIGU4S.js"),
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
        "W/\"8ada61f339bc29af\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
