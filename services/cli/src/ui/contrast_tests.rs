//! The page's colours, dark and light: text can be read on what it stands on, and shapes stand out (WCAG 2.2, level AA).

use std::collections::BTreeMap;

const STYLE: &str = include_str!("page/page.css");
const PODS: &str = include_str!("page/colours.js");

/// Least contrast of text, and of shapes that mean something.
const TEXT: f64 = 4.5;
const SHAPES: f64 = 3.0;

type Palette = BTreeMap<&'static str, &'static str>;

/// The variables of the rule that begins so.
fn variables(rule: &str) -> Palette {
    let (_, after) = STYLE.split_once(rule).expect("the rule is there");
    let (block, _) = after.split_once('}').expect("it ends");
    let named = block.split(';').filter_map(|each| each.trim().strip_prefix("--")?.split_once(':'));
    named.filter(|(_, value)| value.starts_with('#')).collect()
}

/// What pods of a theme are painted with.
fn pods(theme: &str) -> Vec<&'static str> {
    let (_, after) = PODS.split_once(&format!("{theme}: [")).expect("the theme has colours");
    let (list, _) = after.split_once(']').expect("the list ends");
    list.split(',').map(|each| each.trim().trim_matches('"')).collect()
}

fn channel(hex: &str) -> f64 {
    let value = f64::from(u8::from_str_radix(hex, 16).expect("two hexadecimal digits")) / 255.0;
    if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn luminance(colour: &str) -> f64 {
    assert!(colour.len() == 7, "write {colour:?} as #rrggbb");
    0.2126 * channel(&colour[1..3]) + 0.7152 * channel(&colour[3..5]) + 0.0722 * channel(&colour[5..7])
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn contrast_is_that_of_the_standard() {
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
    assert!((contrast("#777777", "#ffffff") - 4.48).abs() < 0.01, "the well-known grey that just fails");
}

#[test]
fn text_is_readable_and_shapes_stand_out_in_both_themes() {
    let dark = variables(":root{");
    // What the light theme does not name it takes over.
    let light: Palette = dark.clone().into_iter().chain(variables(":root[data-theme=light]{")).collect();
    for (theme, all) in [("dark", &dark), ("light", &light)] {
        let mut weak = Vec::new();
        let mut check = |least: f64, front: &str, ground: &str, what: String| {
            let found = contrast(front, ground);
            if found < least {
                weak.push(format!("{what} is {front} on {ground}: {found:.2} of {least}"));
            }
        };
        for front in ["text", "dim", "accent", "good", "warn", "bad", "new", "join", "swap"] {
            for ground in ["bg", "panel", "raised"] {
                check(TEXT, all[front], all[ground], format!("{front} as text on {ground}"));
            }
        }
        // Of buttons that are filled, and of counts.
        for ground in ["accent", "warn"] {
            check(TEXT, all["bg"], all[ground], format!("text on {ground}"));
        }
        for front in ["faint", "cpu", "mem", "new", "join", "warn", "swap"] {
            for ground in ["panel", "free"] {
                check(SHAPES, all[front], all[ground], format!("{front} on {ground}"));
            }
        }
        for pod in pods(theme).into_iter().chain([all["faint"]]) {
            check(TEXT, all["on-pod"], pod, "the name of a pod".to_owned());
            check(SHAPES, pod, all["free"], "a pod".to_owned());
        }
        assert!(weak.is_empty(), "{theme}:\n{}", weak.join("\n"));
    }
}

#[test]
fn both_themes_have_as_many_colours_for_pods_and_all_differ() {
    let themes = ["dark", "light"].map(pods);
    assert_eq!(themes[0].len(), themes[1].len());
    for all in themes {
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
    }
}
