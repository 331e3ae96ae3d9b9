package workload

import (
	"bytes"
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"attune.io/attune/internal/clip"
)

// ReadForeign decodes a part of a custom resource whose CRD validates little: a quantity there may be any string. One
// undecodable object would fail the whole list and stall its cache. So decoders use ReadForeign, which leaves an
// unreadable part empty and returns the reason, of at most 200 bytes.
//
// Its work is bounded. Field names are case-sensitive, as in the API server.
func ReadForeign[T any](data []byte) (part T, unreadable string) {
	// Parsing an amount takes time proportional to the square of its length: seconds for a megabyte, which would block
	// all other objects. So reject a long amount before it is parsed.
	var whole any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // keeps the spelling of numbers
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

// MostForeignText is the size limit in bytes of a text that another program wrote.
const MostForeignText = 200

// amountFields are the fields of a pod template that contain only amounts, directly or nested.
var amountFields = map[string]bool{"requests": true, "limits": true, "overhead": true, "sizeLimit": true, "divisor": true}

// shortIn rejects a value that contains an amount that is too long. within is true inside a field of amounts.
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

func shortAmount(text string) error {
	switch {
	case len(text) > mostText:
		return fmt.Errorf("an amount has %d characters: use at most %d", len(text), mostText)
	case greatExponent(text):
		return fmt.Errorf("the exponent of the amount %s is too large: use at most two digits", text)
	}
	return nil
}
