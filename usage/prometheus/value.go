package prometheus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"
)

var (
	// ErrNoValue means that the query matches nothing at that time.
	ErrNoValue = errors.New("the query returns no value")
	// ErrManyValues means that the query does not return a single number.
	ErrManyValues = errors.New("the query returns several series: aggregate them to one, e.g. with sum() or max()")
)

// maxValueBytes bounds the answer to a query for one number.
const maxValueBytes = 1 << 20

// Value evaluates a query at one time. The query must return one number: a scalar, or a vector of one series. The
// number may be NaN or infinite. Errors are ErrNoValue, ErrManyValues, or the errors of Read.
func (c *Client) Value(ctx context.Context, expression string, at time.Time) (float64, error) {
	form := url.Values{"query": {expression}, "time": {seconds(at)}, "timeout": {c.timeout.String()}}
	var value float64
	err := c.ask(ctx, "/api/v1/query", form, func(body io.Reader) error {
		said, err := decodeValue(io.LimitReader(body, maxValueBytes), &value)
		switch {
		case errors.Is(err, ErrNoValue), errors.Is(err, ErrManyValues):
			return err
		case err != nil:
			return c.decodeFailure(err)
		case said.Status != "success":
			return c.envelopeFailure(said)
		}
		return nil
	})
	return value, err
}

// decodeValue reads the answer to an instant query. The answer is small (maxValueBytes), so it is decoded as a whole.
func decodeValue(r io.Reader, value *float64) (envelope, error) {
	var answer struct {
		envelope
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return envelope{}, err
	}
	said := answer.envelope
	switch {
	case said.Status == "":
		return said, errNotAnAnswer
	case said.Status != "success":
		return said, nil
	}
	point, err := onePoint(answer.Data.ResultType, answer.Data.Result)
	if err != nil {
		return said, err
	}
	sample, err := pointOf(bytes.TrimSuffix(point, []byte{']'}))
	*value = sample.Value
	return said, err
}

// onePoint returns the only point of a result, or ErrNoValue or ErrManyValues.
func onePoint(kind string, result json.RawMessage) (json.RawMessage, error) {
	switch kind {
	case "scalar":
		return result, nil
	case "vector":
		var vector []struct{ Value json.RawMessage }
		if err := json.Unmarshal(result, &vector); err != nil {
			return nil, err
		}
		switch len(vector) {
		case 0:
			return nil, ErrNoValue
		case 1:
			return vector[0].Value, nil
		}
		return nil, ErrManyValues
	}
	return nil, fmt.Errorf("%w: it is a %q, not a number", errPoint, kind)
}
