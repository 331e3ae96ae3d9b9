package recommender

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

var binarySuffixes = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// Format writes an amount as an exact Kubernetes quantity. CPU is in cores if whole, otherwise in millicores ("2",
// "250m"). Memory has the largest binary suffix that divides it ("256Mi"), otherwise it is in bytes.
func Format(r Resource, a Amount) string {
	switch {
	case r == Memory:
		return string(appendBytes(nil, a))
	case a%1000 == 0:
		return strconv.FormatInt(int64(a/1000), 10)
	default:
		return strconv.FormatInt(int64(a), 10) + "m"
	}
}

// Readable writes an amount for people: memory that is not a whole number of MiB has two decimals ("1.34Gi").
func Readable(r Resource, a Amount) string { return string(sentence(nil).amount(r, a)) }

func appendBytes(text []byte, a Amount) []byte {
	suffix := 0
	for a != 0 && a%1024 == 0 && suffix < len(binarySuffixes)-1 {
		a /= 1024
		suffix++
	}
	return append(strconv.AppendInt(text, int64(a), 10), binarySuffixes[suffix]...)
}

// sentence is a reason under construction. Its methods append and return it, as append does.
type sentence []byte

func (s sentence) text(t string) sentence { return append(s, t...) }

func (s sentence) count(n int) sentence { return strconv.AppendInt(s, int64(n), 10) }

// ordinal writes a number from 1 to 100 such as 1st, 11th or 95th.
func (s sentence) ordinal(n int) sentence {
	suffix := "th"
	if teens := n / 10 % 10; teens != 1 {
		suffix = [10]string{"th", "st", "nd", "rd", "th", "th", "th", "th", "th", "th"}[n%10]
	}
	return s.count(n).text(suffix)
}

// number writes x with at most the given decimals and without trailing zeros.
func (s sentence) number(x float64, decimals int) sentence {
	start := len(s)
	s = strconv.AppendFloat(s, x, 'f', decimals, 64)
	if decimals == 0 {
		return s
	}
	s = bytes.TrimSuffix(bytes.TrimRight(s, "0"), []byte("."))
	if string(s[start:]) == "-0" {
		return append(s[:start], '0')
	}
	return s
}

// amount writes an amount for people, as usage does.
func (s sentence) amount(r Resource, a Amount) sentence { return s.usage(r, Usage(a)) }

// usage writes a usage for people: millicores to one decimal ("200.4m"), whole cores without a unit ("2"). Memory is
// exact if it is whole mebibytes ("1300Mi"), otherwise to two decimals ("1.34Gi").
func (s sentence) usage(r Resource, u Usage) sentence {
	x := float64(u)
	switch {
	case r == CPU && math.Mod(x, 1000) == 0:
		return s.number(x/1000, 0)
	case r == CPU:
		return s.number(x, 1).text("m")
	case math.Mod(x, 1<<20) == 0 && u < Usage(MaxAmount):
		return appendBytes(s, Amount(x))
	default:
		return s.roundedBytes(x)
	}
}

// greatest writes a usage that may be absurdly large: CPU in cores, and nothing above MaxAmount.
func (s sentence) greatest(r Resource, u Usage) sentence {
	u = min(u, Usage(MaxAmount))
	switch {
	case r == CPU && u < 1000:
		return s.number(float64(u)/1000, 3).text(" cores") // a limit of 32m is not 0 cores
	case r == CPU:
		return s.number(float64(u)/1000, 1).text(" cores")
	}
	return s.usage(r, u)
}

func (s sentence) roundedBytes(x float64) sentence {
	suffix := 0
	for x >= 1024 && suffix < len(binarySuffixes)-1 {
		x /= 1024
		suffix++
	}
	return s.number(x, 2).text(binarySuffixes[suffix])
}

// at writes a time to the minute, in UTC.
func (s sentence) at(t time.Time) sentence { return t.UTC().AppendFormat(s, "2006-01-02 15:04 UTC") }

func (s sentence) days(n float64) sentence {
	if n == 1 {
		return s.text("1 day")
	}
	return s.number(n, 1).text(" days")
}

// duration writes a span of time to the minute, or in days from two days on.
func (s sentence) duration(d time.Duration) sentence {
	if d >= 2*day {
		return s.days(inDays(d))
	}
	if d >= time.Hour {
		s = s.count(int(d / time.Hour)).text("h")
	}
	return s.count(int(d % time.Hour / time.Minute)).text("m")
}
