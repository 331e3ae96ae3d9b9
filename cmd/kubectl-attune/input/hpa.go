package input

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
)

// HPA is the value of --hpa.
type HPA struct {
	// Given reports whether the flag was given.
	Given bool
	// Live: the HPAs of the cluster count, with the tolerances of Scaler if they set none. Otherwise Scaler is what the HPA
	// says about Resource, and Request and Instead are the present and the recommended request of a pod.
	Live             bool
	Scaler           replicas.Scaler
	Resource         recommender.Resource
	Request, Instead recommender.Amount

	text string
}

// String implements pflag.Value.
func (h *HPA) String() string { return h.text }

// Type implements pflag.Value.
func (h *HPA) Type() string { return "settings" }

// Set implements pflag.Value.
func (h *HPA) Set(text string) error {
	*h = HPA{Given: true, text: text, Scaler: replicas.Scaler{Min: 1, Up: replicas.DefaultTolerance, Down: replicas.DefaultTolerance}}
	amounts := map[string]string{}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "live":
			h.Live = true
		case "min", "max", "target":
			numbers := map[string]*int32{"min": &h.Scaler.Min, "max": &h.Scaler.Max, "target": &h.Scaler.Target}
			*numbers[name], err = wholeNumber(value)
		case "tolerance":
			h.Scaler.Up, err = tolerance(value)
			h.Scaler.Down = h.Scaler.Up
		case "resource":
			h.Resource, err = resourceNamed(value)
		case "request", "instead":
			amounts[name] = value
		default:
			err = fmt.Errorf("%q is neither live nor one of min, max, target, tolerance, resource, request and instead", part)
		}
		if err != nil {
			return err
		}
	}
	if h.Live {
		return h.checkLive(len(amounts))
	}
	var err, other error
	h.Request, err = requestOf(h.Resource, amounts["request"])
	h.Instead, other = requestOf(h.Resource, amounts["instead"])
	complete := h.Scaler.Min <= h.Scaler.Max && h.Scaler.Target > 0 && h.Request > 0 && h.Instead > 0
	if err = cmp.Or(err, other); err != nil || complete {
		return err
	}
	return errors.New("write live, or e.g. min=2,max=10,target=70,request=1,instead=462m")
}

// checkLive returns an error about settings that do not belong to live.
func (h *HPA) checkLive(amounts int) error {
	switch s := h.Scaler; {
	case s.Max != 0 || s.Target != 0 || s.Min != 1 || amounts > 0:
		return errors.New("live reads the HPAs of the cluster: only tolerance can be added")
	case s.Up == 0:
		return errors.New("tolerance=0 is not supported with live: leave it out, or describe the HPA with --trace")
	}
	return nil
}

// requestOf returns 0 without a text.
func requestOf(r recommender.Resource, text string) (recommender.Amount, error) {
	if text == "" {
		return 0, nil
	}
	quantity, err := workload.ParseQuantity(text)
	amount := podview.AmountOf(r, quantity)
	if err != nil || amount <= 0 {
		return 0, fmt.Errorf("%q is not a request, e.g. 500m", text)
	}
	return amount, nil
}

func wholeNumber(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number above 0", text)
	}
	return int32(n), nil
}

func tolerance(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x < 1) {
		return 0, fmt.Errorf("%q is not a tolerance from 0 to below 1, e.g. 0.1", text)
	}
	return x, nil
}
