package prometheus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"attune.io/attune/usage"
)

// envelope is an answer of the API without its data.
type envelope struct {
	Status, ErrorType, Error string
	// Warnings of Prometheus, Thanos and Mimir. Their infos (such as "metric might not be a counter") are about the
	// style of the query and are not used.
	Warnings []string `json:"-"`
	// Partial is VictoriaMetrics' isPartial; Thanos reports the same in a warning.
	Partial bool `json:"-"`
	// matrix: the answer has the data of a range query.
	matrix bool
}

// series is one element of a range query's result, as sent.
type series struct {
	Metric     Labels            `json:"metric"`
	Values     points            `json:"values"`
	Histograms []json.RawMessage `json:"histograms"`
}

var (
	// errNotAnAnswer: JSON, but not an answer of the API.
	errNotAnAnswer = errors.New("not an answer of the Prometheus HTTP API")
	// errNotAMatrix: an answer, but not to a range query.
	errNotAMatrix = errors.New("not the answer to a range query")
	// errPoint: a sample that is not a pair of a time and a value.
	errPoint = errors.New("a sample is not a pair of a time and a value")
)

// isDecoding reports whether an error of decode is about the content. Other errors come from the reader.
func isDecoding(err error) bool {
	return errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, errPoint) || errors.Is(err, errNotAMatrix)
}

// partBytes and pointBytes bound the part of an answer that is held at once: a series may have partBytes, plus
// pointBytes for each requested step. The same bound applies to every other part.
const partBytes, pointBytes = 64 << 10, 64

// errLongSeries: a series, or another part in its place, is longer than any requested series.
var errLongSeries = errors.New("a series is too long")

// partReader bounds the bytes read for one part of an answer, because a decoder holds all of it.
type partReader struct {
	// most is how many bytes a part may have, left how many the current one may still have.
	from       io.Reader
	most, left int64
}

// Read implements io.Reader. It fails with errLongSeries if a part is too long.
func (r *partReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongSeries
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// begin another part.
func (r *partReader) begin() { r.left = r.most }

// decode reads the answer to a range query of so many steps and calls yield for each series, which is only valid during
// the call. It holds one series at a time, so that an answer of 256 MiB takes little memory. Members may come in any
// order, and unknown ones are skipped. After an error the caller must discard the series yielded so far.
func decode(from io.Reader, steps int64, yield func(Element)) (envelope, error) {
	parts := &partReader{from: from, most: partBytes + steps*pointBytes}
	parts.begin()
	decoder := json.NewDecoder(parts)
	var answer envelope
	texts := map[string]any{
		"status": &answer.Status, "errorType": &answer.ErrorType, "error": &answer.Error, "warnings": &answer.Warnings, "isPartial": &answer.Partial,
	}
	err := members(decoder, func(name string) error {
		parts.begin()
		if name == "data" {
			return decodeData(decoder, parts, &answer, yield)
		}
		if into, known := texts[name]; known {
			return decoder.Decode(into)
		}
		return decoder.Decode(&json.RawMessage{}) // skipped
	})
	if err == nil && answer.Status == "" {
		err = errNotAnAnswer
	}
	if err == nil && answer.Status == "success" && !answer.matrix {
		err = errNotAMatrix
	}
	return answer, err
}

// decodeData decodes the member data. resultType may come after result, so a result of another type is rejected only at
// the end.
func decodeData(decoder *json.Decoder, parts *partReader, answer *envelope, yield func(Element)) error {
	return members(decoder, func(name string) error {
		parts.begin()
		switch name {
		case "resultType":
			var kind string
			err := decoder.Decode(&kind)
			answer.matrix = kind == "matrix"
			return err
		case "result":
			return elements(decoder, parts, yield)
		}
		return decoder.Decode(&json.RawMessage{})
	})
}

// elements decodes a list of series one after another into the same memory.
func elements(decoder *json.Decoder, parts *partReader, yield func(Element)) error {
	var s series
	return within(decoder, '[', errNotAMatrix, func() error {
		parts.begin()
		s = series{Values: s.Values[:0]}
		if err := decoder.Decode(&s); err != nil {
			return err
		}
		yield(Element{Labels: s.Metric, Samples: s.Values, Histograms: len(s.Histograms)})
		return nil
	})
}

// members calls visit with the name of each member of an object, to decode its value.
func members(decoder *json.Decoder, visit func(name string) error) error {
	return within(decoder, '{', errNotAnAnswer, func() error {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		return visit(fmt.Sprint(name))
	})
}

// within calls visit for each part of a list or an object, to decode it. A null has no parts; another opening delimiter
// is the error wrong.
func within(decoder *json.Decoder, opens json.Delim, wrong error, visit func() error) error {
	opening, err := decoder.Token()
	if err != nil || opening == nil {
		return err
	}
	if opening != opens {
		return wrong
	}
	for decoder.More() {
		if err := visit(); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

// points are samples as sent: [[1700000000.123,"0.25"],…].
type points []usage.Sample

// UnmarshalJSON reads valid JSON without an allocation per point, because an answer is mostly points.
func (p *points) UnmarshalJSON(raw []byte) error {
	*p = (*p)[:0]
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		return nil
	}
	list, opens := bytes.CutPrefix(raw, []byte{'['})
	list, closes := bytes.CutSuffix(list, []byte{']'})
	if !opens || !closes {
		return errPoint
	}
	for list = bytes.TrimSpace(list); len(list) > 0; list = bytes.TrimSpace(list) {
		if len(*p) > 0 && list[0] != ',' {
			return errPoint
		}
		pair, rest, closed := bytes.Cut(bytes.TrimPrefix(list, []byte{','}), []byte{']'})
		sample, err := pointOf(pair)
		if !closed || err != nil {
			return errPoint
		}
		*p, list = append(*p, sample), rest
	}
	return nil
}

// pointOf reads a pair of a time in Unix seconds and a value, up to its closing bracket.
func pointOf(raw []byte) (usage.Sample, error) {
	pair, opens := bytes.CutPrefix(bytes.TrimSpace(raw), []byte{'['})
	first, second, two := bytes.Cut(pair, []byte{','})
	at, err1 := number(first)
	value, err2 := number(second)
	if !opens || !two || errors.Join(err1, err2) != nil || !(math.Abs(at) <= maxSeconds) {
		return usage.Sample{}, errPoint
	}
	return usage.Sample{At: int64(math.Round(at * 1000)), Value: value}, nil
}

// maxSeconds keeps times in the range of milliseconds.
const maxSeconds = 1e12

// number reads a number, which may be a string such as "NaN" or "+Inf". A number beyond float64 becomes infinite.
func number(raw []byte) (float64, error) {
	text, opens := bytes.CutPrefix(bytes.TrimSpace(raw), []byte{'"'})
	text, closes := bytes.CutSuffix(text, []byte{'"'})
	value, err := strconv.ParseFloat(string(text), 64)
	if opens != closes || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errPoint
	}
	return value, nil
}
