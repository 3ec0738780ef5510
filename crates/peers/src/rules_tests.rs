//! Lists of states come back unchanged, within their bounds; hostile ones are refused.

use proptest::prelude::*;

use super::*;
use crate::message::{Answer, Request, decode_answer, decode_request};
use sandur_base::Id;

/// The parts of a list, which may have any number of bytes.
fn parts(list: &PeerRules) -> Result<Vec<PeerRulesPart<'_>>, Malformed> {
    let (mut parts, mut all) = (list.parts(u64::MAX), Vec::new());
    while let Some(part) = parts.read()? {
        all.push(part);
    }
    Ok(all)
}

fn alert(value: f64) -> PeerRulesPart<'static> {
    let labels = vec![("alertname", "Down"), ("instance", "a:1")];
    let annotations = vec![("summary", "a is down"), ("empty", "")];
    let times = PeerAlertTimes { active_ns: -1, fired_ns: Some(0), ..PeerAlertTimes::default() };
    PeerRulesPart::Alert(PeerAlert { labels, annotations, value, state: PeerAlertState::Firing, times })
}

fn group(name: &str) -> PeerRulesPart<'_> {
    PeerRulesPart::Group(PeerGroup { file: "f.yml", name, fingerprint: 7, ..PeerGroup::default() })
}

fn written(most: u64, parts: &[PeerRulesPart<'_>]) -> (PeerRules, usize) {
    let mut writer = PeerRulesWriter::new("a", most);
    let fitting = parts.iter().filter(|part| writer.push(part)).count();
    (writer.end(3), fitting)
}

#[test]
fn calls_about_rules_come_back_unchanged() {
    for groups in [Vec::new(), vec![0, 1, u128::MAX], vec![5; GROUPS_NAMED_MAX]] {
        for without_alerts in [false, true] {
            let (process, tenant, groups) = (Id(7), "a".to_owned(), groups.clone());
            let request = Request::Rules { process, tenant, groups, without_alerts, most_bytes: 1 << 20 };
            let bytes = request.encode();
            assert!(bytes.len() < crate::REQUEST_BYTES_MAX / 2, "{}", bytes.len());
            assert_eq!(decode_request(&bytes), Ok(request));
        }
    }
    let times = PeerRule { last_ns: Some(0), error: Some(""), alerts: 9, ..PeerRule::default() };
    let sent = [group("g"), PeerRulesPart::Rule(times), alert(f64::INFINITY)];
    let (list, fitting) = written(u64::MAX, &sent);
    let answer = Answer::Rules(list);
    let bytes: Bytes = answer.encode().concat().into();
    let back = decode_answer(&bytes);
    assert_eq!((fitting, back.as_ref()), (3, Ok(&answer)));
    let Ok(Answer::Rules(list)) = back else { unreachable!("it is equal") };
    let mut expected = vec![PeerRulesPart::Tenant("a")];
    expected.extend(sent);
    expected.push(PeerRulesPart::LeftOut(3));
    assert_eq!(parts(&list), Ok(expected));
}

#[test]
fn a_list_has_no_more_bytes_than_its_caller_allows() {
    let name = "n".repeat(100);
    let all: Vec<_> = (0..100).flat_map(|_| [group(&name), alert(1.0), alert(2.0)]).collect();
    for most in [0, 256, 1_000, 10_000, 100_000, 1 << 20] {
        let (list, fitting) = written(most, &all);
        assert!(list.len() as u64 <= most.max(HEAD_BYTES), "{} of {most}", list.len());
        assert!(fitting <= all.len() && (most < 1 << 20 || fitting == all.len()));
        let mut parts = list.parts(most);
        let mut read = 0;
        while let Some(part) = parts.read().unwrap() {
            read += usize::from(!matches!(part, PeerRulesPart::Tenant(_) | PeerRulesPart::LeftOut(_)));
        }
        assert_eq!(read, fitting);
    }
    // A process that sends more than it may is refused where the bound is reached.
    let (list, _) = written(u64::MAX, &all);
    let mut parts = list.parts(10_000);
    let end = std::iter::from_fn(|| parts.read().transpose()).find_map(Result::err);
    assert!(end.unwrap().to_string().contains("more parts"));
}

/// Two bytes of a message must not cost a reader hundreds.
#[test]
fn empty_alerts_count_what_they_take() {
    let mut message = Vec::new();
    let million = 1_000_000;
    (0..million).for_each(|_| {
        message.message(fields::PART, |part: &mut Vec<u8>| part.message(fields::ALERT, |_| ()));
    });
    let (list, mut read) = (PeerRules(message.into()), 0u64);
    let mut parts = list.parts(1 << 20);
    while let Ok(Some(_)) = parts.read() {
        read += 1;
    }
    assert_eq!(read, (1 << 20) / ALERT_BYTES);
}

#[test]
fn texts_of_other_bytes_and_unknown_states_are_refused() {
    let of_alert = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut message = Vec::new();
        message.message(fields::PART, |part: &mut Vec<u8>| part.message(fields::ALERT, write));
        PeerRules(message.into())
    };
    assert!(parts(&of_alert(&|alert| alert.bytes(1, &[0x0A, 1, 0xFF]))).is_err());
    assert!(parts(&of_alert(&|alert| alert.number(4, 3))).is_err());
    assert!(parts(&of_alert(&|alert| alert.number(99, 3))).is_ok(), "a field of a later version");
    let mut later = Vec::new();
    later.message(fields::PART, |part: &mut Vec<u8>| part.number(9, 1));
    assert_eq!(parts(&PeerRules(later.into())), Ok(Vec::new()), "a part of a later version");
    let pairs = |number: usize| of_alert(&move |alert| (0..number).for_each(|_| alert.bytes(2, &[])));
    assert!(parts(&pairs(PAIRS_MAX)).is_ok() && parts(&pairs(PAIRS_MAX + 1)).is_err());
    let labels = vec![("a", "b"); PAIRS_MAX + 1];
    let large = PeerRulesPart::Alert(PeerAlert { labels, ..PeerAlert::default() });
    assert!(!PeerRulesWriter::new("a", u64::MAX).push(&large), "a reader would refuse it");
    assert!(read_fingerprints(&[1; 15]).is_err());
    assert!(read_fingerprints(&[1; 16 * GROUPS_NAMED_MAX + 16]).is_err());
    // Without a tenant it would be a call for rules of all tenants.
    assert!(decode_request(&[&[0x32, 18, 0x0A, 16][..], &[7; 16]].concat()).is_err());
}

proptest! {
    #[test]
    fn parts_come_back_unchanged(
        texts in proptest::collection::vec("[a-zä\"]{0,12}", 8),
        numbers in proptest::collection::vec(any::<u64>(), 8),
        times in proptest::collection::vec(proptest::option::of(any::<i64>()), 6),
        (fingerprint, bits) in (any::<u128>(), any::<u64>()),
    ) {
        let group = PeerGroup {
            file: &texts[0],
            name: &texts[1],
            fingerprint,
            last_ns: times[0],
            took_us: numbers[0],
            missed: numbers[1],
            made_up: numbers[2],
            late_us: numbers[3],
        };
        let error = times[1].is_some().then_some(texts[2].as_str());
        let (last_ns, took_us, alerts) = (times[1], numbers[4], numbers[5]);
        let rule = PeerRule { last_ns, took_us, error, alerts, ..PeerRule::default() };
        let value = f64::from_bits(bits);
        let value = if value.is_nan() { f64::INFINITY } else { value };
        let times = PeerAlertTimes {
            active_ns: numbers[6].cast_signed(),
            fired_ns: times[2],
            keep_firing_since_ns: times[3],
            sent_ns: times[4],
            valid_until_ns: times[5],
        };
        let alert = PeerAlert {
            labels: vec![(&texts[3], &texts[4]), (&texts[5], "")],
            annotations: vec![(&texts[6], &texts[7])],
            value,
            state: PeerAlertState::Pending,
            times,
        };
        let sent = [PeerRulesPart::Group(group), PeerRulesPart::Rule(rule), PeerRulesPart::Alert(alert)];
        let (list, fitting) = written(u64::MAX, &sent);
        prop_assert_eq!(fitting, 3);
        let all = parts(&list).unwrap();
        prop_assert_eq!(&all[1..4], &sent[..]);
        let bytes: u64 = sent.iter().map(PeerRulesPart::bytes).sum();
        prop_assert!(list.len() as u64 <= HEAD_BYTES + bytes);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let list = PeerRules(bytes.into());
        let mut parts = list.parts(1 << 20);
        while let Ok(Some(_)) = parts.read() {}
    }
}
