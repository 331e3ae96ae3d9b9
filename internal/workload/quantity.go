package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// mostText is longer than any real amount in any unit.
	mostText = 64
	// mostExponent is the largest number of digits of an exponent.
	mostExponent = 2
)

// BoundedQuantity is a quantity in JSON. Decoding a quantity that would take long returns an error:
// resource.ParseQuantity computes the power of ten of any exponent, which can take minutes and gigabytes for a text of
// 12 bytes.
type BoundedQuantity struct{ resource.Quantity }

// UnmarshalJSON decodes a quantity.
func (b *BoundedQuantity) UnmarshalJSON(text []byte) error {
	if err := checkQuantity(bytes.Trim(text, `"`)); err != nil {
		return err
	}
	return b.Quantity.UnmarshalJSON(text)
}

// ParseQuantity parses a quantity. It returns an error for one that would take long to parse.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := checkQuantity([]byte(text)); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// UnmarshalBounded decodes a document of attune's API. It returns an error for a quantity that would take long to
// parse.
func UnmarshalBounded(document []byte, into any) error {
	if err := CheckQuantities(document); err != nil {
		return err
	}
	return json.Unmarshal(document, into)
}

var errNoJSON = errors.New("the document is not JSON")

// CheckQuantities checks each quantity in a document of attune's API, which has no quantities in lists and maps. It
// keeps no state.
func CheckQuantities(document []byte) error {
	if !json.Valid(document) {
		return errNoJSON
	}
	var field []byte // the key of the next value
	for i := 0; i < len(document); {
		switch c := document[i]; {
		case c == '"':
			end := i + quotedLength(document[i:])
			text := document[i+1 : end-1]
			i = end + spacesLength(document[end:])
			if i < len(document) && document[i] == ':' {
				field = text
				continue
			}
			if err := checkField(field, text); err != nil {
				return err
			}
			field = nil
		case c == '-' || '0' <= c && c <= '9':
			end := i + numberLength(document[i:])
			if err := checkField(field, document[i:end]); err != nil {
				return err
			}
			i, field = end, nil
		case c == '{' || c == '[':
			field = nil
			i++
		default:
			i++
		}
	}
	return nil
}

// quotedLength is the length of the string at the start of a text.
func quotedLength(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func spacesLength(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t\r\n")) }

func numberLength(text []byte) int { return len(text) - len(bytes.TrimLeft(text, "+-.0123456789eE")) }

// quantityFields are the fields of attune's API that contain quantities, case-folded: decoding ignores case.
var quantityFields = map[string]bool{}

func init() {
	for _, name := range []string{
		"minAllowed", "maxAllowed", "cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit", "cpuLimitFloor", "memoryLimitFloor", "cpuRequestReduction", "originalRequest",
		"memoryRequestReduction", "cpuPeak", "cpuDay", "memoryPeak", "memoryMax7d", "memoryOOM",
		"cpuLimitMost", "memoryLimitMost", "most", "least", "min", "max", "baseCPURequest", "baseCPULimit", "amount", "limit", "usage", "cpu", "memory",
	} {
		quantityFields[foldName(name)] = true
	}
}

// foldName folds a name as encoding/json does: each rune to the smallest rune that differs only in case.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}

// longestField is the length of the longest name, written with escapes.
const longestField = 6 * 64

func checkField(field, value []byte) error {
	if len(field) == 0 || len(field) > longestField {
		return nil
	}
	name := string(field)
	if strings.Contains(name, `\`) && json.Unmarshal([]byte(`"`+name+`"`), &name) != nil || !quantityFields[foldName(name)] {
		return nil //nolint:nilerr // an unreadable name is not a field
	}
	// A label may have the name of a field. A value that does not start like a number is no quantity, and the decoder
	// rejects it quickly.
	if text := bytes.TrimSpace(value); len(text) == 0 || !strings.ContainsRune("+-.0123456789", rune(text[0])) {
		return nil
	}
	if err := checkQuantity(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// checkQuantity checks the text of a quantity before it is parsed.
func checkQuantity(text []byte) error {
	if len(text) > mostText {
		return fmt.Errorf("the quantity has %d bytes: use at most %d, e.g. 250m or 64Mi", len(text), mostText)
	}
	if !greatExponent(text) {
		return nil
	}
	return fmt.Errorf("the exponent of the quantity %s is too large: use at most two digits, e.g. 250m or 64Mi", text)
}

// greatExponent reports whether a text has an exponent of more than mostExponent digits, with leading zeros: computing
// with such an amount can take as long as writing all its digits. The rules of the CRDs reject the same texts.
func greatExponent[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] != 'e' && text[i] != 'E' {
			continue
		}
		first := i + 1
		if first < len(text) && (text[first] == '+' || text[first] == '-') {
			first++
		}
		end := first
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		if end-first > mostExponent {
			return true
		}
	}
	return false
}
