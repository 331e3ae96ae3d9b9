// Package foreign reads parts of custom resources whose CRD checks little: a size may be any text there. A list with
// one object that could not be decoded would be no list at all, and its cache would wait for ever. So who decodes such
// an object leaves a part that cannot be read empty, and keeps the reason: one object's trouble stays its own.
package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"attune.io/attune/internal/clip"
)

// Read decodes a part of an object, with bounded work. Names of fields are compared with their case, as the API
// server does. A part that cannot be read is the zero value and has the reason, of at most 200 bytes.
func Read[T any](data []byte) (part T, unreadable string) {
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
		return none, clip.Text(err.Error(), Most)
	}
	return part, ""
}

// Most is how many bytes are kept of a text that another program wrote.
const Most = 200

// longest is how many bytes an amount may have. The longest that makes sense has some twenty digits.
const longest = 64

// amounts are the fields of a pod template whose values are amounts, or have amounts alone below them.
var amounts = map[string]bool{"requests": true, "limits": true, "overhead": true, "sizeLimit": true, "divisor": true}

// shortIn refuses a value with an amount that is too long in it or below it. within is true below a field of amounts.
func shortIn(value any, within bool) error {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if err := shortIn(below, within || amounts[name]); err != nil {
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
	case len(text) > longest:
		return fmt.Errorf("an amount of it has %d characters; at most %d are read", len(text), longest)
	case greatExponent.MatchString(text):
		return fmt.Errorf("the amount %s of it has too great an exponent", text)
	}
	return nil
}
