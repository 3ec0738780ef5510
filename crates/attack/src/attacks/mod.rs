//! The table of attacks. An attack is one file with its `ATTACK`, and one line here.

mod any_requests;
mod attack;
mod carbon_clients;
mod chains;
mod compressed_bodies;
mod damaged_objects;
mod delete_filters;
mod edge_numbers;
mod followers;
mod graphite_targets;
mod idle_connections;
mod malformed_requests;
mod many_series;
mod memcached_clients;
mod nested_bodies;
mod open_files;
mod promql_chains;
mod regexes;
mod remote_writes;
mod selectors;
mod slow_bodies;
mod templates;
mod thin_days;
mod unlinked_wal;
mod unread_answers;
mod web_pages;

pub use attack::Attack;

/// Every attack, from the cheapest to the most expensive.
pub static ATTACKS: &[&Attack] = &[
    &chains::ATTACK,
    &promql_chains::ATTACK,
    &graphite_targets::ATTACK,
    &edge_numbers::ATTACK,
    &malformed_requests::ATTACK,
    &any_requests::ATTACK,
    &nested_bodies::ATTACK,
    &regexes::ATTACK,
    &selectors::ATTACK,
    &templates::ATTACK,
    &compressed_bodies::ATTACK,
    &remote_writes::ATTACK,
    &many_series::ATTACK,
    &slow_bodies::ATTACK,
    &idle_connections::ATTACK,
    &unread_answers::ATTACK,
    &followers::ATTACK,
    &web_pages::ATTACK,
    &memcached_clients::ATTACK,
    &carbon_clients::ATTACK,
    &damaged_objects::ATTACK,
    &unlinked_wal::ATTACK,
    &thin_days::ATTACK,
    &open_files::ATTACK,
    &delete_filters::ATTACK,
];
