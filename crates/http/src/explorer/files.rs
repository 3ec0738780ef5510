//! The files of the explorer: path below `/explore/`, content type, entity tag, content.
//!
//! Written by `cargo xtask web build` from `web/`; do not edit.

use super::file::{File, file};

/// Every file, sorted by path.
#[rustfmt::skip]
pub static FILES: [File; 28] = [
    file(
        "assets/add_panel-OEO3VZZL.js",
        "text/javascript; charset=utf-8",
        "W/\"b3a467e401d48eb5\"",
        include_bytes!("../../../../web/dist/assets/add_panel-OEO3VZZL.js"),
    ),
    file(
        "assets/chart-BX6XMZS7.js",
        "text/javascript; charset=utf-8",
        "W/\"60a63d27c5039f40\"",
        include_bytes!("../../../../web/dist/assets/chart-BX6XMZS7.js"),
    ),
    file(
        "assets/chunk-4TST3D3K.js",
        "text/javascript; charset=utf-8",
        "W/\"a569e83b74a28990\"",
        include_bytes!("../../../../web/dist/assets/chunk-4TST3D3K.js"),
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
        "assets/chunk-BXUOVZNM.js",
        "text/javascript; charset=utf-8",
        "W/\"cf517624f6380751\"",
        include_bytes!("../../../../web/dist/assets/chunk-BXUOVZNM.js"),
    ),
    file(
        "assets/chunk-C5I6U7MH.js",
        "text/javascript; charset=utf-8",
        "W/\"7d7186437c8c92fc\"",
        include_bytes!("../../../../web/dist/assets/chunk-C5I6U7MH.js"),
    ),
    file(
        "assets/chunk-KGS43X5S.js",
        "text/javascript; charset=utf-8",
        "W/\"12907e77b9124dda\"",
        include_bytes!("../../../../web/dist/assets/chunk-KGS43X5S.js"),
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
        "assets/main-656OZO7S.js",
        "text/javascript; charset=utf-8",
        "W/\"2b0f23081ad6ea5a\"",
        include_bytes!("../../../../web/dist/assets/main-656OZO7S.js"),
    ),
    file(
        "assets/main-X7JPBEAN.css",
        "text/css; charset=utf-8",
        "W/\"a77a873522a3b90e\"",
        include_bytes!("../../../../web/dist/assets/main-X7JPBEAN.css"),
    ),
    file(
        "assets/page-4EM4CFXE.js",
        "text/javascript; charset=utf-8",
        "W/\"09e778a71535d6e3\"",
        include_bytes!("../../../../web/dist/assets/page-4EM4CFXE.js"),
    ),
    file(
        "assets/page-7KX7IXST.js",
        "text/javascript; charset=utf-8",
        "W/\"a79a98447b170195\"",
        include_bytes!("../../../../web/dist/assets/page-7KX7IXST.js"),
    ),
    file(
        "assets/page-AXTOIOO2.js",
        "text/javascript; charset=utf-8",
        "W/\"ebd70942ee7f82c1\"",
        include_bytes!("../../../../web/dist/assets/page-AXTOIOO2.js"),
    ),
    file(
        "assets/page-T6367XMG.js",
        "text/javascript; charset=utf-8",
        "W/\"bd189676235aa208\"",
        include_bytes!("../../../../web/dist/assets/page-T6367XMG.js"),
    ),
    file(
        "assets/page-VJPOPTCD.js",
        "text/javascript; charset=utf-8",
        "W/\"3f909641d45286d1\"",
        include_bytes!("../../../../web/dist/assets/page-VJPOPTCD.js"),
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
        "W/\"d8ea85b0489a32e1\"",
        include_bytes!("../../../../web/dist/index.html"),
    ),
    file(
        "licences.txt",
        "text/plain; charset=utf-8",
        "W/\"9e011f8261487952\"",
        include_bytes!("../../../../web/dist/licences.txt"),
    ),
];
