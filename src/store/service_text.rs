//! What errors and logs may contain of DynamoDB's messages. A message about the contents of a request can
//! quote a value of the request, which may be a client's.

use crate::error::one_line;

/// The longest part of a message that is kept, in characters.
const MAX_CHARS: usize = 400;

/// Sentences of DynamoDB about the contents of a request, up to the place where it quotes a value. `{}`
/// is a name or a type, such as the name of a key attribute.
const SENTENCES: &[&str] = &[
    "1 validation error detected",
    "An expression attribute name used in the document path is not defined",
    "An expression attribute value used in expression is not defined",
    "An operand in the update expression has an incorrect data type",
    "Attempting to store more than 38 significant digits in a Number",
    "Attribute name is a reserved keyword",
    "Cannot update attribute {}. This attribute is part of the key",
    "Collection size of items exceeded",
    "ExpressionAttributeNames contains invalid key",
    "ExpressionAttributeNames contains invalid value",
    "ExpressionAttributeValues contains invalid key",
    "ExpressionAttributeValues contains invalid value",
    "ExpressionAttributeNames can only be specified when using expressions",
    "ExpressionAttributeValues can only be specified when using expressions",
    "ExpressionAttributeNames must not be empty",
    "ExpressionAttributeValues must not be empty",
    "Expression size has exceeded the maximum allowed size",
    "Invalid ConditionExpression",
    "Invalid ConditionExpression: An expression attribute name used in the document path is not defined",
    "Invalid ConditionExpression: An expression attribute value used in expression is not defined",
    "Invalid ConditionExpression: Attribute name is a reserved keyword",
    "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size",
    "Invalid ConditionExpression: Incorrect number of operands for operator or function",
    "Invalid ConditionExpression: Incorrect operand type for operator or function",
    "Invalid ConditionExpression: Invalid function name",
    "Invalid ConditionExpression: Syntax error",
    "Invalid ConditionExpression: The expression can not be empty",
    "Invalid ConditionExpression: The expression has redundant parentheses",
    "Invalid UpdateExpression",
    "Invalid UpdateExpression: An expression attribute name used in the document path is not defined",
    "Invalid UpdateExpression: An expression attribute value used in expression is not defined",
    "Invalid UpdateExpression: Attribute name is a reserved keyword",
    "Invalid UpdateExpression: Expression size has exceeded the maximum allowed size",
    "Invalid UpdateExpression: Incorrect number of operands for operator or function",
    "Invalid UpdateExpression: Incorrect operand type for operator or function",
    "Invalid UpdateExpression: Invalid function name",
    "Invalid UpdateExpression: Syntax error",
    "Invalid UpdateExpression: The \"{}\" section can only be used once in an update expression",
    "Invalid UpdateExpression: The expression can not be empty",
    "Invalid UpdateExpression: Two document paths conflict with each other",
    "Invalid UpdateExpression: Two document paths overlap with each other",
    "Item collection size limit of {} bytes exceeded",
    "Item size has exceeded the maximum allowed size",
    "Item size to update has exceeded the maximum allowed size",
    "Nesting Levels have exceeded supported limits",
    "Number overflow. Attempting to store a number with magnitude larger than supported range",
    "Number underflow. Attempting to store a number with magnitude smaller than supported range",
    "One or more parameter values are not valid",
    "One or more parameter values are not valid. A value specified for a secondary index key is not \
     supported. The AttributeValue for a key attribute cannot contain an empty string value. IndexName: {}, \
     IndexKey: {}",
    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an \
     empty string value. Key: {}",
    "One or more parameter values were invalid",
    "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size \
     limit of {} bytes",
    "One or more parameter values were invalid: An number set may not be empty",
    "One or more parameter values were invalid: An number set  may not be empty",
    "One or more parameter values were invalid: An string set may not be empty",
    "One or more parameter values were invalid: An string set  may not be empty",
    "One or more parameter values were invalid: Binary sets should not be empty",
    "One or more parameter values were invalid: Input collection",
    "One or more parameter values were invalid: Missing the key {} in the item",
    "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of {} \
     bytes",
    "One or more parameter values were invalid: Type mismatch for Index Key {} Expected: {} Actual: {}",
    "One or more parameter values were invalid: Type mismatch for key {} expected: {} actual: {}",
    "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported \
     datatypes",
    "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
    "The conditional request failed",
    "The document path provided in the update expression is invalid for update",
    "The parameter cannot be converted to a numeric value",
    "The provided expression refers to an attribute that does not exist in the item",
    "The provided key element does not match the schema",
    "Transaction request cannot include multiple operations on one item",
    "Type mismatch for attribute to update",
    "Value provided in ExpressionAttributeNames unused in expressions",
    "Value provided in ExpressionAttributeValues unused in expressions",
];

/// Returns the part of a message about the contents of a request that quotes none of them. `None` if no
/// part of it is known.
pub(super) fn without_values(message: &str) -> Option<String> {
    let known = SENTENCES.iter().filter_map(|sentence| matching(message, sentence)).max()?;
    let (known, rest) = message.split_at(known);
    let ending = if rest.trim_end_matches('.').is_empty() { "" } else { " …" };
    Some(format!("{known}{ending}"))
}

/// Returns the first line of a message that quotes nothing of a request's contents.
pub(super) fn first_line(message: &str) -> Option<String> {
    let line = message.lines().next()?.trim();
    let line: String = line.chars().take(MAX_CHARS).collect();
    (!line.is_empty()).then(|| one_line(line))
}

/// How many bytes of `message` the sentence covers, if it covers its beginning.
fn matching(message: &str, sentence: &str) -> Option<usize> {
    let mut pieces = sentence.split("{}");
    let mut rest = message.strip_prefix(pieces.next()?)?;
    for piece in pieces {
        let name = rest.find(|c: char| !is_of_name(c)).unwrap_or(rest.len());
        // A name before a full stop, a comma or a quote ends there.
        let name = rest[..name].trim_end_matches(['.', ',']).len();
        rest = rest[name..].strip_prefix(piece)?;
    }
    Some(message.len() - rest.len())
}

const fn is_of_name(c: char) -> bool {
    matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | '#' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_before_the_value_that_it_quotes() {
        let invalid = "One or more parameter values were invalid";
        for (message, expected) in [
            (
                "The parameter cannot be converted to a numeric value: 12\nERROR paid",
                Some("The parameter cannot be converted to a numeric value …".to_owned()),
            ),
            (
                &format!("{invalid}: Input collection [secret, secret] contains duplicates."),
                Some(format!("{invalid}: Input collection …")),
            ),
            (
                &format!("{invalid}: Type mismatch for key order.id expected: S actual: N"),
                Some(format!("{invalid}: Type mismatch for key order.id expected: S actual: N")),
            ),
            (
                "Cannot update attribute pk. This attribute is part of the key",
                Some("Cannot update attribute pk. This attribute is part of the key".to_owned()),
            ),
            (
                "Invalid UpdateExpression: Syntax error; token: \"secret\", near: \"= secret\"",
                Some("Invalid UpdateExpression: Syntax error …".to_owned()),
            ),
            (&format!("{invalid}: secret"), Some(format!("{invalid} …"))),
            (
                "Item size has exceeded the maximum allowed size.",
                Some("Item size has exceeded the maximum allowed size".to_owned()),
            ),
            ("secret: Item size has exceeded the maximum allowed size", None),
            ("", None),
        ] {
            assert_eq!(without_values(message), expected, "{message:?}");
        }
    }

    #[test]
    fn a_message_that_quotes_nothing_is_one_line() {
        let message = "The request signature does not match.\n\nThe Canonical String is 'POST'";
        assert_eq!(first_line(message).unwrap(), "The request signature does not match.");
        assert_eq!(first_line("a\u{1b}[2Kb").unwrap(), r"a\u{1b}[2Kb");
        assert_eq!(first_line(&"x".repeat(1000)).unwrap().len(), MAX_CHARS);
        assert_eq!(first_line("\n"), None);
    }
}
