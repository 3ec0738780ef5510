//! The files of the explorer: path below `/explore/`, content type, entity tag, content.
//!
//! Written by `cargo xtask web build` from `web/`; do not edit.

use super::file::{File, file};

/// Every file, sorted by path.
#[rustfmt::skip]
pub static FILES: [File; 28] = [
    file(
        "assets/add_panel-NWPHIN5Q.js",
        "text/javascript; charset=utf-8",
        "W/\"4776487fe90068d0\"",
        include_bytes!("../../../../web/dist/assets/add_panel-NWPHIN5Q.js"),
    ),
    file(
        "assets/chart-BX6XMZS7.js",
        "text/javascript; charset=utf-8",
        "W/\"60a63d27c5039f40\"",
        include_bytes!("../../../../web/dist/assets/chart-BX6XMZS7.js"),
    ),
    file(
        "assets/chunk-2CO3LAL7.js",
        "text/javascript; charset=utf-8",
        "W/\"ef8c720d4f3306cc\"",
        include_bytes!("../../../../web/dist/assets/chunk-2CO3LAL7.js"),
    ),
    file(
        "assets/chunk-5PA43CRJ.js",
        "text/javascript; charset=utf-8",
        "W/\"790c92cec2cf9b1f\"",
        include_bytes!("../../../../web/dist/assets/chunk-5PA43CRJ.js"),
    ),
    file(
        "assets/chunk-62ZJSRHI.js",
        "text/javascript; charset=utf-8",
        "W/\"9602f8bc06461ff5\"",
        include_bytes!("../../../../web/dist/assets/chunk-62ZJSRHI.js"),
    ),
    file(
        "assets/chunk-6ERPJSMA.js",
        "text/javascript; charset=utf-8",
        "W/\"a0cb585119c41770\"",
        include_bytes!("../../../../web/dist/assets/chunk-6ERPJSMA.js"),
    ),
    file(
        "assets/chunk-A5UICAM3.js",
        "text/javascript; charset=utf-8",
        "W/\"8c0702e284dc9ee0\"",
        include_bytes!("../../../../web/dist/assets/chunk-A5UICAM3.js"),
    ),
    file(
        "assets/chunk-C5I6U7MH.js",
        "text/javascript; charset=utf-8",
        "W/\"7d7186437c8c92fc\"",
        include_bytes!("../../../../web/dist/assets/chunk-C5I6U7MH.js"),
    ),
    file(
        "assets/chunk-ENDAPQVB.js",
        "text/javascript; charset=utf-8",
        "W/\"fcef3860b8d5ae30\"",
        include_bytes!("../../../../web/dist/assets/chunk-ENDAPQVB.js"),
    ),
    file(
        "assets/chunk-KBBKDQGY.js",
        "text/javascript; charset=utf-8",
        "W/\"c178d059e9f6e314\"",
        include_bytes!("../../../../web/dist/assets/chunk-KBBKDQGY.js"),
    ),
    file(
        "assets/chunk-LHXN5YUX.js",
        "text/javascript; charset=utf-8",
        "W/\"e64337453e1309ac\"",
        include_bytes!("../../../../web/dist/assets/chunk-LHXN5YUX.js"),
    ),
    file(
        "assets/chunk-NXEGLYKO.js",
        "text/javascript; charset=utf-8",
        "W/\"4d20aa30f3635616\"",
        include_bytes!("../../../../web/dist/assets/chunk-NXEGLYKO.js"),
    ),
    file(
        "assets/chunk-PCS4Q6CE.js",
        "text/javascript; charset=utf-8",
        "W/\"38cc78bf389643ea\"",
        include_bytes!("../../../../web/dist/assets/chunk-PCS4Q6CE.js"),
    ),
    file(
        "assets/chunk-RKCYGW6N.js",
        "text/javascript; charset=utf-8",
        "W/\"04911b9e16c0bf85\"",
        include_bytes!("../../../../web/dist/assets/chunk-RKCYGW6N.js"),
    ),
    file(
        "assets/chunk-WXY2ZEKB.js",
        "text/javascript; charset=utf-8",
        "W/\"22f109f57712c598\"",
        include_bytes!("../../../../web/dist/assets/chunk-WXY2ZEKB.js"),
    ),
    file(
        "assets/chunk-YFTHWPHD.js",
        "text/javascript; charset=utf-8",
        "W/\"1ae97629201ec155\"",
        include_bytes!("../../../../web/dist/assets/chunk-YFTHWPHD.js"),
    ),
    file(
        "assets/main-X7JPBEAN.css",
        "text/css; charset=utf-8",
        "W/\"a77a873522a3b90e\"",
        include_bytes!("../../../../web/dist/assets/main-X7JPBEAN.css"),
    ),
    file(
        "assets/main-YPEZIEOL.js",
        "text/javascript; charset=utf-8",
        "W/\"bd162508c5dbc1f8\"",
        include_bytes!("../../../../web/dist/assets/main-YPEZIEOL.js"),
    ),
    file(
        "assets/page-2HV2XVR4.js",
        "text/javascript; charset=utf-8",
        "W/\"62ff6203da94b6c0\"",
        include_bytes!("../../../../web/dist/assets/page-2HV2XVR4.js"),
    ),
    file(
        "assets/page-AXTOIOO2.js",
        "text/javascript; charset=utf-8",
        "W/\"ebd70942ee7f82c1\"",
        include_bytes!("../../../../web/dist/assets/page-AXTOIOO2.js"),
    ),
    file(
        "assets/page-LLRSSJUT.js",
        "text/javascript; charset=utf-8",
        "W/\"cc9593c0877ca9ef\"",
        include_bytes!("../../../../web/dist/assets/page-LLRSSJUT.js"),
    ),
    file(
        "assets/page-WNBSUJUY.js",
        "text/javascript; charset=utf-8",
        "W/\"e455b7511b774e78\"",
        include_bytes!("../../../../web/dist/assets/page-WNBSUJUY.js"),
    ),
    file(
        "assets/page-XMIXWEOE.js",
        "text/javascript; charset=utf-8",
        "W/\"e21f136ba6bfdf79\"",
        include_bytes!("../../../../web/dist/assets/page-XMIXWEOE.js"),
    ),
    file(
        "assets/page-YXYB4GLI.js",
        "text/javascript; charset=utf-8",
        "W/\"512076a34f603873\"",
        include_bytes!("../../../../web/dist/assets/page-YXYB4GLI.js"),
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
        "W/\"37950a32ba98132d\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
