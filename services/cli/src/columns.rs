//! Rows in aligned columns, for people.

use std::io::{self, Write};

/// Where a cell stands in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Headings with their alignment, then rows of as many cells. Nothing trails the last cell.
pub(crate) fn print<const N: usize>(
    out: &mut dyn Write,
    headings: [(&str, Align); N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let width = |column: usize| {
        let own = rows.iter().map(|row| row[column].chars().count());
        own.chain([headings[column].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let fill = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let padded = match headings[column].1 {
                Align::Left => format!("{cell}{fill}"),
                Align::Right => format!("{fill}{cell}"),
            };
            text.push_str(if column == 0 { "" } else { "  " });
            text.push_str(&padded);
        }
        writeln!(out, "{}", text.trim_end())
    };
    line(std::array::from_fn(|column| headings[column].0))?;
    for row in rows {
        line(std::array::from_fn(|column| row[column].as_str()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_with_text() {
        let mut out = Vec::new();
        let rows = [["a".to_owned(), "1".to_owned()], ["long".to_owned(), String::new()]];
        print(&mut out, [("NAME", Align::Left), ("COUNT", Align::Right)], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME  COUNT\na         1\nlong\n");
    }
}
