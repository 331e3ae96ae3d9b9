package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"attune.io/attune/internal/clip"
)

// ReadForeign is for custom resources whose CRD checks little: a size may be any text there. A list with one object that could
// not be decoded would be no list at all, and its cache would wait for ever. So an object's decoder leaves a part that cannot
// be read empty and keeps the reason.
//
// It decodes a part of an object, with bounded work. Names of fields are compared with their case, as the API
// server does. A part that cannot be read is the zero value and has the reason, of at most 200 bytes.
func ReadForeign[T any](data []byte) (part T, unreadable string) {
	// The time to read an amount grows with the square of its length, seconds for a megabyte, in which no other object
	// would be read: one that is too long is refused before.
	var whole any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a number stays as it was written
	err := decoder.Decode(&whole)
	if err == nil {
		err = shortIn(whole, false)
	}
	if err == nil {
		err = utiljson.Unmarshal(data, &part)
	}
	if err != nil {
		var none T
		return none, clip.Text(err.Error(), MostForeignText)
	}
	return part, ""
}

// MostForeignText is how many bytes are kept of a text that another program wrote.
const MostForeignText = 200

// longestAmount is how many bytes an amount may have. The longest that makes sense has some twenty digits.
const longestAmount = 64

// amountFields are the fields of a pod template whose values are amounts, or have amounts alone below them.
var amountFields = map[string]bool{"requests": true, "limits": true, "overhead": true, "sizeLimit": true, "divisor": true}

// shortIn refuses a value with an amount that is too long in it or below it. within is true below a field of amounts.
func shortIn(value any, within bool) error {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if err := shortIn(below, within || amountFields[name]); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := shortIn(below, within); err != nil {
				return err
			}
		}
	case json.Number:
		return shortAmount(v.String())
	case string:
		if within {
			return shortAmount(v)
		}
	}
	return nil
}

// greatExponent is one of three digits or more: comparing such an amount takes as long as writing it out.
var greatExponent = regexp.MustCompile(`[eE][-+]?[0-9]{3}`)

func shortAmount(text string) error {
	switch {
	case len(text) > longestAmount:
		return fmt.Errorf("an amount of it has %d characters; at most %d are read", len(text), longestAmount)
	case greatExponent.MatchString(text):
		return fmt.Errorf("the amount %s of it has too great an exponent", text)
	}
	return nil
}
